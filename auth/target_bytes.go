package auth

import "strings"

// The texts for the client of faults that more than one check can find.
const (
	faultEscape  = "The request target holds a percent sign that two hexadecimal digits do not follow"
	faultHash    = "The request target holds a '#'; write %23 for the character, and send no fragment"
	faultByte    = "The request target holds a space, a control byte or a byte beyond ASCII; percent-encode it"
	faultSlash   = "The path holds a percent-encoded slash or backslash"
	faultControl = "The path holds a percent-encoded control byte"
	faultSegment = "The path holds an empty, '.' or '..' segment, or one of blanks and dots alone"
	faultUTF8    = "The path holds an overlong UTF-8 sequence"
)

// checkPathBytes returns whether a raw path holds escapes, and the first fault
// of its bytes, or "".
func checkPathBytes(path string) (escapes bool, fault string) {
	for i := 0; i < len(path); i++ {
		switch c := path[i]; c {
		case '%':
			b, ok := escapedByte(path, i)
			if !ok {
				return true, faultEscape
			}
			if fault := checkDecodedByte(b); fault != "" {
				return true, fault
			}
			escapes = true
			i += 2
		case '{', '}', '|', '"', '<', '>', '^', '`', '\\':
			return escapes, "The path holds one of { } | \" < > ^ ` or a backslash; percent-encode it"
		default:
			if fault := checkRawByte(c); fault != "" {
				return escapes, fault
			}
		}
	}
	return escapes, ""
}

// checkQueryBytes returns the first fault of the bytes of a raw query, or "".
func checkQueryBytes(query string) string {
	for i := 0; i < len(query); i++ {
		if query[i] == '%' {
			if _, ok := escapedByte(query, i); !ok {
				return faultEscape
			}
		} else if fault := checkRawByte(query[i]); fault != "" {
			return fault
		}
	}
	return ""
}

func checkRawByte(c byte) string {
	switch {
	case c == '#':
		return faultHash
	case c <= ' ' || c >= 0x7f:
		return faultByte
	default:
		return ""
	}
}

func checkDecodedByte(c byte) string {
	switch {
	case c == '/' || c == '\\':
		return faultSlash
	case c < ' ' || c == 0x7f:
		return faultControl
	default:
		return ""
	}
}

// escapedByte returns the byte that the escape at i encodes, and false unless
// two hexadecimal digits follow the percent sign at i.
func escapedByte(s string, i int) (byte, bool) {
	if i+2 >= len(s) {
		return 0, false
	}
	hi, ok1 := hexDigit(s[i+1])
	lo, ok2 := hexDigit(s[i+2])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	default:
		return 0, false
	}
}

// checkSegments returns a fault when a server might drop or resolve a segment
// of the path, else "". For some servers the text after a ';' is a parameter,
// so the part before it is checked.
func checkSegments(path string) string {
	for rest, more := path[1:], true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "" && !more {
			return "" // the one slash at the end, or the path "/"
		}
		if vanishes(segment) {
			return faultSegment
		}
	}
	return ""
}

func badTarget(message string) *Refusal {
	return &Refusal{Reason: BadTarget, Message: message, Log: message}
}
