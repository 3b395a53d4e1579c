package translate

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Lengths in octets: RFC 5321, 4.5.3.1. An address is two octets shorter than
// a path, which has angle brackets.
const (
	maxLocalPart = 64
	maxEmail     = 256 - len("<>")
)

// checkEmail takes a Mailbox of RFC 5321, 4.1.2, with a Dot-string before the
// at sign and a host name after it, both also in other scripts than Latin
// (RFC 6531). It takes no quoted string, no address literal, no display name,
// and no character that a reader cannot see.
func checkEmail(_ Variant, value []byte) string {
	at := bytes.LastIndexByte(value, '@')
	if at < 0 || len(value) > maxEmail || !validLocalPart(value[:at]) || !validHost(string(value[at+1:])) {
		return "must be an email address"
	}
	return ""
}

// validLocalPart reports whether s is a Dot-string: atoms with dots between
// them.
func validLocalPart(s []byte) bool {
	if len(s) > maxLocalPart {
		return false
	}
	for atom := range bytes.SplitSeq(s, []byte(".")) {
		if !validAtom(atom) {
			return false
		}
	}
	return true
}

// validAtom reports whether s is an Atom: RFC 5321, 4.1.2, and RFC 6531, 3.3.
func validAtom(s []byte) bool {
	for _, r := range string(s) {
		if r < utf8.RuneSelf && !atomText.has(byte(r)) || invisible(r) {
			return false
		}
	}
	return len(s) > 0
}

// hosts converts a host name to the letters, digits and hyphens that RFC 1123
// allows, and verifies the lengths of its labels and of the whole. It leaves
// hyphens to validLabel: inside of a label they may stand anywhere.
var hosts = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckHyphens(false), idna.VerifyDNSLength(true))

// validHost reports whether s is a host name: RFC 1123, 2.1, and RFC 5890 for
// labels in other scripts.
func validHost(s string) bool {
	ascii, err := hosts.ToASCII(s)
	if err != nil {
		return false
	}
	letters, err := hosts.ToUnicode(ascii)
	if err != nil {
		return false
	}
	labels, a, u := strings.Split(s, "."), strings.Split(ascii, "."), strings.Split(letters, ".")
	if len(labels) != len(a) || len(labels) != len(u) {
		return false
	}
	for i, label := range labels {
		label = strings.Map(lowered, label)
		if !validLabel(label) || label != a[i] && label != u[i] {
			return false
		}
	}
	return true
}

// validLabel reports whether a lower-case label has no hyphen at its ends and
// no character that cannot be seen.
func validLabel(label string) bool {
	return label != "" && label[0] != '-' && label[len(label)-1] != '-' && !strings.ContainsFunc(label, invisible)
}

// lowered returns the lower case of a letter. It leaves letters that only look
// like one of ASCII, such as the Kelvin sign: a host has one spelling.
func lowered(r rune) rune {
	if small := unicode.ToLower(r); r < utf8.RuneSelf || small >= utf8.RuneSelf {
		return small
	}
	return r
}
