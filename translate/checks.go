package translate

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/biter777/countries"
	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// A check returns the fault of a value's characters, or "". The text continues
// a sentence that begins with the field's name.

func checkType(_ Variant, value []byte) string {
	if isIndividual(value) || isBusiness(value) {
		return ""
	}
	return "must be individual or business"
}

func isIndividual(value []byte) bool { return string(value) == "individual" }
func isBusiness(value []byte) bool   { return string(value) == "business" }

// checkPhoneCode allows a plus and 1 to 6 digits, the first not 0. Country codes
// have up to 3 digits. Some are written with an area code, such as +1684.
func checkPhoneCode(_ Variant, value []byte) string {
	if len(value) < 2 || len(value) > 7 || value[0] != '+' || value[1] == '0' || !all(value[1:], digit) {
		return "must be an international dialling code with a leading plus, such as +44"
	}
	return ""
}

// checkPhoneNumber allows digits, at least one, and the characters that people
// write between them.
func checkPhoneNumber(_ Variant, value []byte) string {
	if !all(value, digit, spacer) || all(value, spacer) {
		return "must be a number without country code, in digits"
	}
	return ""
}

func checkCountry(_ Variant, value []byte) string {
	if !validCountry(value) {
		return "must be an ISO 3166-1 alpha-2 country code in upper case, such as GB"
	}
	return ""
}

func checkGender(v Variant, value []byte) string {
	if v == VariantA {
		return ""
	}
	switch string(value) {
	case "male", "female", "other":
		return ""
	}
	return "must be male, female or other"
}

func checkDate(v Variant, value []byte) string {
	switch {
	case v == VariantA && !validDateTime(value):
		return "must be an ISO 8601 date-time of a day that exists, such as 1990-04-12T00:00:00Z"
	case v != VariantA && !validDate(value):
		return "must be a date that exists, as YYYY-MM-DD"
	default:
		return ""
	}
}

// A checker compares a customer with the published constraints of a variant.
type checker struct {
	*walker
	variant   Variant
	operation Operation
	// individual and business are the customer's type. Both are false when it
	// is not known.
	individual, business bool
	problems             []Problem
}

// check collects the problems of the customer that the walker has read.
func (c *checker) check() {
	if s := &c.seen[typeField]; s.as != nil && s.value.kind == '"' {
		text := c.text(s.value)
		c.individual, c.business = isIndividual(text), isBusiness(text)
	}
	for i := range fields {
		s, f := &c.seen[i], &fields[i]
		switch {
		case s.as == nil:
			if c.requires(f) {
				c.add(f, f.requestName(c.variant), missing(f.needs[c.variant]))
			}
		case s.folded.read():
			c.report(f, s.folded, "must be spelled "+placeNames[f.in]+f.requestName(c.variant))
			if !s.again.read() {
				c.value(f, s)
			}
		case s.again.read():
			c.report(f, s.again, "is the same field as "+placeNames[f.in]+c.written(s.name)+", which is present too")
		default:
			if s.foreign {
				c.report(f, s.name, "is not a name of variant "+c.variant.String()+", the variant of the names before it")
			}
			c.value(f, s)
		}
	}
}

// written returns the name as the client wrote it.
func (c *checker) written(name token) string { return shortened(string(c.text(name))) }

// requires reports whether the field must be present.
func (c *checker) requires(f *field) bool {
	if c.operation != Create {
		return false
	}
	switch f.needs[c.variant] {
	case always:
		return true
	case individual, individualOrNull:
		return c.individual
	case business:
		return c.business
	default:
		return false
	}
}

// value reports a value that the field does not allow.
func (c *checker) value(f *field, s *seen) {
	need := f.needs[c.variant]
	if need == free {
		return
	}
	switch s.value.kind {
	case '"':
		text := c.text(s.value) // valid until the first report
		wrong := ""
		if f.check != nil {
			wrong = f.check(c.variant, text)
		}
		if f.max > 0 && utf8.RuneCount(text) > f.max {
			c.report(f, s.name, "must be at most "+strconv.Itoa(f.max)+" characters long")
		}
		if wrong != "" {
			c.report(f, s.name, wrong)
		}
	case 'n':
		switch {
		case need == always:
			c.report(f, s.name, "must not be null")
		case c.requires(f) && need != individualOrNull:
			c.report(f, s.name, missing(need))
		}
	default:
		c.report(f, s.name, "must be a string")
	}
}

// report adds a problem of the field under the name that the client wrote.
func (c *checker) report(f *field, name token, message string) {
	c.add(f, c.written(name), message)
}

func (c *checker) add(f *field, name, message string) {
	c.problems = append(c.problems, Problem{Field: placeNames[f.in] + name, Message: message})
}

// missing returns the message for a required field without a value.
func missing(need need) string {
	switch need {
	case individual, individualOrNull:
		return "is required for individual customers"
	case business:
		return "is required for business customers"
	default:
		return "is required"
	}
}

// A class is a set of ASCII characters.
type class [128]bool

const (
	digits   = "0123456789"
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters  = "abcdefghijklmnopqrstuvwxyz"
)

var (
	separator = chars("-_.")
	digit     = chars(digits)
	upper     = chars(capitals)
	timeStart = chars("Tt ")                                               // between a day and a time
	spacer    = chars(" -.()/")                                            // between digits of a phone number
	hostText  = chars(capitals + letters + digits + "-")                   // RFC 1123, 2.1
	atomText  = chars(capitals + letters + digits + "!#$%&'*+-/=?^_`{|}~") // atext of RFC 5322, 3.2.3
)

func chars(members string) *class {
	var c class
	for i := range len(members) {
		c[members[i]] = true
	}
	return &c
}

// has reports whether the class holds the character.
func (c *class) has(b byte) bool { return b < 128 && c[b] }

// all reports whether every character of s is in one of the classes.
func all(s []byte, classes ...*class) bool { return span(s, classes...) == len(s) }

// span returns the number of characters at the start of s that are in one of
// the classes.
func span(s []byte, classes ...*class) int {
	for i, b := range s {
		if !slices.ContainsFunc(classes, func(c *class) bool { return c.has(b) }) {
			return i
		}
	}
	return len(s)
}

// music is the block of musical symbols. It and three scripts have a character for which
// nothing is drawn although Unicode counts it as a letter, mark or symbol: U+1D159,
// U+2800, U+13441 and U+16FE4. No property names them, and nobody needs the others.
var music = &unicode.RangeTable{R32: []unicode.Range32{{Lo: 0x1d100, Hi: 0x1d1ff, Stride: 1}}}

// invisible reports whether a reader cannot see the character, or cannot tell
// it from a space: spaces, controls, format characters such as U+200B and
// U+202E, fillers, variation selectors, and code points without a character.
func invisible(r rune) bool {
	if r < utf8.RuneSelf {
		return r <= ' ' || r == 0x7f
	}
	return !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
			unicode.Braille, unicode.Egyptian_Hieroglyphs, unicode.Khitan_Small_Script, music)
}

// separates reports whether the character separates words: dashes, connectors
// such as the underscore, dots, and invisible characters.
func separates(r rune) bool {
	if r < utf8.RuneSelf {
		return separator.has(byte(r)) || invisible(r)
	}
	return unicode.In(r, unicode.Pd, unicode.Pc) || invisible(r)
}

// folded returns the lower-case ASCII letter that equals the character for a
// reader that ignores case. If there is none, it returns the character itself.
// It covers simple folding (Go, .NET) and the simple mappings to upper and lower
// case (.NET, Jackson).
func folded(r rune) rune {
	for _, same := range []rune{r, unicode.SimpleFold(r), unicode.ToLower(r), unicode.ToUpper(r)} {
		if same < utf8.RuneSelf {
			return unicode.ToLower(same)
		}
	}
	return r
}

// withdrawn holds the codes that ISO 3166-1 no longer assigns but the library
// still lists: the Netherlands Antilles and Yugoslavia. A test compares the
// other codes with the list of the IANA time zone database.
var withdrawn = map[string]bool{"AN": true, "YU": true}

// countryCodes holds the assigned alpha-2 codes, and XK for Kosovo, by their
// two letters.
var countryCodes = func() (codes [26][26]bool) {
	for _, country := range countries.All() {
		if code := country.Alpha2(); len(code) == 2 && !withdrawn[code] {
			codes[code[0]-'A'][code[1]-'A'] = true
		}
	}
	return codes
}()

// validCountry reports whether s is an upper-case ISO 3166-1 alpha-2 code or
// XK.
func validCountry(s []byte) bool {
	return len(s) == 2 && all(s, upper) && countryCodes[s[0]-'A'][s[1]-'A']
}

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
// (RFC 6531). It refuses quoted strings, address literals, display names,
// characters that a reader cannot see, and all spellings but one of a local part that
// Unicode can write in several ways.
func checkEmail(_ Variant, value []byte) string {
	at := bytes.LastIndexByte(value, '@')
	if at < 0 || len(value) > maxEmail || !validLocalPart(value[:at]) || !validHost(value[at+1:]) {
		return "must be an email address"
	}
	if !norm.NFKC.IsNormal(value[:at]) {
		return "must be an email address, with the part before the at sign in the Unicode form NFKC"
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
