package translate

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Lengths in octets: RFC 5321, 4.5.3.1, and RFC 1035, 2.3.4. An address is two
// octets shorter than a path, which has angle brackets.
const (
	maxLocalPart = 64
	maxLabel     = 63
	maxHost      = 253
	maxEmail     = 256 - len("<>")
)

// checkEmail allows a Mailbox of RFC 5321, 4.1.2, with a Dot-string before the
// at sign and a host name after it. Both may be in scripts other than Latin
// (RFC 6531). It refuses quoted strings, address literals, display names, and
// characters that a reader cannot see.
func checkEmail(_ Variant, value []byte) string {
	at := bytes.LastIndexByte(value, '@')
	if at < 0 || len(value) > maxEmail || !validLocalPart(value[:at]) || !validHost(value[at+1:]) {
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

// validHost reports whether s is a host name: labels of letters, digits and
// hyphens with dots between them (RFC 1123, 2.1), or labels in other scripts.
func validHost(s []byte) bool {
	ascii := true
	for label := range bytes.SplitSeq(s, []byte(".")) {
		if len(label) == 0 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		plain := all(label, hostText) && !bytes.EqualFold(label[:min(len(label), len("xn--"))], []byte("xn--"))
		if plain && len(label) > maxLabel {
			return false
		}
		ascii = ascii && plain
	}
	return ascii && len(s) <= maxHost || !ascii && validInternationalHost(string(s))
}

// hosts converts a host name to ASCII and back, and verifies its characters and
// the lengths of its labels and of the whole. It allows hyphens anywhere.
var hosts = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckHyphens(false), idna.VerifyDNSLength(true))

// validInternationalHost reports whether each label of s is an ASCII label, or a
// U-label or an A-label of RFC 5890. Except for case, only one spelling of a
// label is valid.
func validInternationalHost(s string) bool {
	ascii, err := hosts.ToASCII(s)
	if err != nil || strings.ContainsFunc(s, invisible) {
		return false
	}
	letters, err := hosts.ToUnicode(ascii)
	if err != nil {
		return false
	}
	labels, a, u := strings.Split(strings.Map(lowered, s), "."), strings.Split(ascii, "."), strings.Split(letters, ".")
	if len(labels) != len(a) || len(labels) != len(u) {
		return false
	}
	for i, label := range labels {
		if label != a[i] && label != u[i] {
			return false
		}
	}
	return true
}

// lowered returns the lower case of a letter. It keeps a letter whose lower case
// is ASCII though it is not, such as the Kelvin sign: it would be a second
// spelling.
func lowered(r rune) rune {
	if small := unicode.ToLower(r); r < utf8.RuneSelf || small >= utf8.RuneSelf {
		return small
	}
	return r
}
