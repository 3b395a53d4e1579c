package cardlog

import "strings"

const (
	digitChars = "0123456789"
	hexChars   = digitChars + "abcdefABCDEF"
	alnumChars = digitChars + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func isAlnum(c byte) bool { return c-'0' <= 9 || (c|0x20)-'a' <= 'z'-'a' }

// uuidAt returns the length of the UUID that a text begins with, or 0: 32
// hexadecimal digits, alone or in the groups 8-4-4-4-12, that no letter or digit
// follows.
func uuidAt(text string) int {
	for _, groups := range [...][]int{{8, 4, 4, 4, 12}, {32}} {
		if n := groupsAt(text, groups); n > 0 && (n == len(text) || !isAlnum(text[n])) {
			return n
		}
	}
	return 0
}

// groupsAt returns the length of groups of hexadecimal digits of these sizes
// with "-" between them, or 0.
func groupsAt(text string, sizes []int) int {
	at := 0
	for i, size := range sizes {
		if i > 0 {
			if text[at] != '-' {
				return 0
			}
			at++
		}
		end := at + size
		if end > len(text) || i+1 < len(sizes) && end == len(text) {
			return 0
		}
		for ; at < end; at++ {
			if strings.IndexByte(hexChars, text[at]) < 0 {
				return 0
			}
		}
	}
	return at
}

// ipv4At returns the length of the IPv4 address that a text begins with, or 0.
// Neither a letter or digit nor a further octet may follow.
func ipv4At(text string) int {
	at := 0
	for octet := range 4 {
		if octet > 0 {
			if at >= len(text) || text[at] != '.' {
				return 0
			}
			at++
		}
		start, value := at, 0
		for ; at < len(text) && text[at]-'0' <= 9; at++ {
			if value = value*10 + int(text[at]-'0'); value > 255 {
				return 0
			}
		}
		if at == start || at-start > 1 && text[start] == '0' {
			return 0
		}
	}
	if at < len(text) && (isAlnum(text[at]) || text[at] == '.' && at+1 < len(text) && isAlnum(text[at+1])) {
		return 0
	}
	return at
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
	high, low := strings.IndexByte(hexChars, text[1]), strings.IndexByte(hexChars, text[2])
	if high < 0 || low < 0 {
		return 0, false
	}
	return hexValue(high)<<4 | hexValue(low), true
}

// hexValue returns the value of the hexadecimal digit at an index of hexChars.
func hexValue(index int) byte {
	if index >= 16 {
		index -= 6
	}
	return byte(index)
}
