package cardlog

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Card numbers have 12 to 19 digits. A run that does not pass the Luhn check
// counts from unprovenRun digits on: it may be a card number with a typing error.
const (
	shortestCard = 12
	longestCard  = 19
	unprovenRun  = 13
)

// maxDecodings is the most times that a text is percent-decoded. maxSearched is
// the longest text that is searched, in bytes. A text with more encodings, or a
// longer one, is masked as a whole if 12 digits can be in it.
const (
	maxDecodings = 8
	maxSearched  = 64 << 10
)

// HidesCardNumber reports whether a text may hold a card number:
//
//   - 12 to 19 digits that pass the Luhn check, or
//   - 13 or more digits, unless they are part of a UUID.
//
// Every character that is neither letter nor digit is ignored, so that grouping
// of any kind makes no difference. Digits of every script count. The text is
// judged as it is and after each of up to 8 percent-decodings. IPv4 addresses
// are ignored.
func HidesCardNumber(text string) bool { return len(findRuns(text, 1)) > 0 }

// mayHide reports whether 12 digits can be in a text. In every form, a digit has
// at least one byte that is a digit, a percent sign or above 0x7f.
func mayHide(text string) bool {
	if len(text) < shortestCard {
		return false
	}
	candidates := 0
	for i := range len(text) {
		if c := text[i]; c-'0' <= 9 || c >= utf8.RuneSelf || c == '%' {
			candidates++
		}
	}
	return candidates >= shortestCard
}

// A span is a part of a text: the bytes from one index to before another.
type span struct{ from, to int }

// findRuns returns the runs of digits that may be card numbers, at most the given
// number. It returns those of the first decoding that has any. A text that is too
// long, or has too many encodings, is one run.
func findRuns(text string, most int) []span {
	if !mayHide(text) {
		return nil
	}
	if len(text) > maxSearched {
		return []span{{0, len(text)}}
	}
	for d := (decoded{text: text}); ; {
		var runs []span
		for s := (scanner{text: d.text}); len(runs) < most && s.next(); {
			runs = append(runs, span{d.origin(s.run.from), d.origin(s.run.to)})
		}
		if len(runs) > 0 || !d.decode() {
			return runs
		}
		if d.passes > maxDecodings {
			return []span{{0, len(text)}}
		}
	}
}

// A scanner finds the runs of digits of a text. It does not decode escapes.
type scanner struct {
	text    string
	at      int // the text before this index was searched
	uuidEnd int // the end of the UUID that the scanner is in

	run    span // the position of the run
	count  int  // digits in the run
	plain  int  // digits of the run since the last UUID
	hit    bool // the run may hold a card number
	digits [longestCard]byte
}

// next finds the next run that may hold a card number, and reports whether
// there is one. It is in s.run.
func (s *scanner) next() bool {
	for s.count, s.plain, s.hit = 0, 0, false; s.at < len(s.text); {
		if s.startsToken() {
			if size := ipv4At(s.text[s.at:]); size > 0 {
				s.at += size
				continue
			}
			s.uuidEnd = max(s.uuidEnd, s.at+uuidAt(s.text[s.at:]))
		}
		value, class, size := classAt(s.text[s.at:])
		switch class {
		case digit:
			s.add(byte(value), size)
		case letter:
			if s.hit {
				return true
			}
			s.count, s.plain = 0, 0
		case separator:
		}
		s.at += size
	}
	return s.hit
}

// startsToken reports whether a word can begin at the current index.
func (s *scanner) startsToken() bool {
	if s.at == 0 {
		return true
	}
	before := s.text[s.at-1]
	return !isAlnum(before) && before != '.' && before < utf8.RuneSelf
}

// add takes the next digit of a run.
func (s *scanner) add(value byte, size int) {
	if s.count == 0 {
		s.run.from = s.at
	}
	s.run.to = s.at + size
	s.digits[s.count%longestCard] = value
	s.count++
	if s.plain++; s.at < s.uuidEnd {
		s.plain = 0
	}
	s.hit = s.hit || s.plain >= unprovenRun || s.endsCard()
}

// endsCard reports whether the last 12, 13, … or 19 digits pass the Luhn check.
func (s *scanner) endsCard() bool {
	sum := 0
	for back := range min(s.count, longestCard) {
		value := int(s.digits[(s.count-1-back)%longestCard])
		if back%2 == 1 {
			if value *= 2; value > 9 {
				value -= 9
			}
		}
		if sum += value; back+1 >= shortestCard && sum%10 == 0 {
			return true
		}
	}
	return false
}

type charClass int

const (
	separator charClass = iota
	letter
	digit
)

// classAt returns the class of the first character of a text, its value if it
// is a digit, and its size in bytes.
func classAt(text string) (value int, class charClass, size int) {
	c := text[0]
	switch {
	case c-'0' <= 9:
		return int(c - '0'), digit, 1
	case isAlnum(c):
		return 0, letter, 1
	case c < utf8.RuneSelf:
		return 0, separator, 1
	}
	r, size := utf8.DecodeRuneInString(text)
	if value, is := digitValue(r); is {
		return value, digit, size
	}
	if unicode.IsLetter(r) {
		return 0, letter, size
	}
	return 0, separator, size
}

// shapedDigits are digits in superscript, in subscript and in circles, which
// Unicode does not count among the decimal digits.
var shapedDigits = []struct {
	lo, hi rune
	value  int // of lo
}{
	{'²', '³', 2}, {'¹', '¹', 1}, {'⁰', '⁰', 0}, {'⁴', '⁹', 4}, {'₀', '₉', 0},
	{'①', '⑨', 1}, {'⑴', '⑼', 1}, {'⒈', '⒐', 1}, {'⓪', '⓪', 0}, {'⓵', '⓽', 1}, {'⓿', '⓿', 0},
	{'❶', '❾', 1}, {'➀', '➈', 1}, {'➊', '➒', 1}, {'🄁', '🄊', 0},
}

// digitValue returns the value of a digit of any script.
func digitValue(r rune) (value int, is bool) {
	for _, d := range shapedDigits {
		if d.lo <= r && r <= d.hi {
			return int(r-d.lo) + d.value, true
		}
	}
	if !unicode.IsDigit(r) {
		return 0, false
	}
	// Unicode has decimal digits in blocks of ten that begin with zero.
	for _, block := range unicode.Nd.R16 {
		if rune(block.Lo) <= r && r <= rune(block.Hi) {
			return int(r-rune(block.Lo)) % 10, true
		}
	}
	for _, block := range unicode.Nd.R32 {
		if rune(block.Lo) <= r && r <= rune(block.Hi) {
			return int(r-rune(block.Lo)) % 10, true
		}
	}
	return 0, false
}

// isAlnum reports whether a byte is an ASCII letter or digit.
func isAlnum(c byte) bool { return c-'0' <= 9 || (c|0x20)-'a' <= 'z'-'a' }

var uuidForm = regexp.MustCompile(`^(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32})$`)

// uuidAt returns the length of the UUID that a text begins with, or 0: 32
// hexadecimal digits, alone or in the groups 8-4-4-4-12, that no letter or digit
// follows.
func uuidAt(text string) int {
	for _, n := range [...]int{36, 32} {
		if len(text) >= n && (n == len(text) || !isAlnum(text[n])) && uuidForm.MatchString(text[:n]) {
			return n
		}
	}
	return 0
}

// ipv4At returns the length of the IPv4 address that a text begins with, or 0.
// Neither a letter or digit nor a further octet may follow.
func ipv4At(text string) int {
	end := 0
	for end < len(text) && (text[end]-'0' <= 9 || text[end] == '.') {
		end++
	}
	address, _, _ := strings.Cut(text[:end], "..")
	address = strings.TrimSuffix(address, ".")
	if strings.Count(address, ".") != 3 {
		return 0 // without the cost of an error
	}
	after := strings.TrimPrefix(text[len(address):], ".")
	if _, err := netip.ParseAddr(address); err != nil || after != "" && isAlnum(after[0]) {
		return 0
	}
	return len(address)
}

// decoded is a text after some percent-decodings.
type decoded struct {
	text   string
	starts []int // where in the original each byte begins; nil: at its own index
	whole  int   // length of the original
	passes int
}

// origin returns the index in the original text of a byte of the decoded one.
func (d *decoded) origin(i int) int {
	switch {
	case d.starts == nil:
		return i
	case i == len(d.starts):
		return d.whole
	default:
		return d.starts[i]
	}
}

// decode undoes one percent-encoding, and reports whether it has changed the
// text. It keeps a percent sign that begins no escape.
func (d *decoded) decode() bool {
	if !strings.Contains(d.text, "%") {
		return false
	}
	out, starts, changed := make([]byte, 0, len(d.text)), make([]int, 0, len(d.text)), false
	for i := 0; i < len(d.text); i++ {
		starts = append(starts, d.origin(i))
		if c, is := escapeAt(d.text[i:]); is {
			out, i, changed = append(out, c), i+2, true
			continue
		}
		out = append(out, d.text[i])
	}
	if d.starts == nil {
		d.whole = len(d.text)
	}
	d.text, d.starts = string(out), starts
	d.passes++
	return changed
}

// escapeAt returns the byte of the escape at the start of a text, if there is
// one.
func escapeAt(text string) (c byte, is bool) {
	if len(text) < 3 || text[0] != '%' {
		return 0, false
	}
	value, err := strconv.ParseUint(text[1:3], 16, 8)
	return byte(value), err == nil
}
