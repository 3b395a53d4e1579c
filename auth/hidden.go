package auth

import "strings"

// checkHidden returns the fault of a decoded path that a second decoding would
// change into a refused one, or that holds overlong UTF-8. It returns "" for
// any other path.
func checkHidden(path string) string {
	if fault := checkOverlong(path); fault != "" {
		return fault
	}
	if strings.IndexByte(path, '%') < 0 {
		return ""
	}
	hidden := decodeHidden(path)
	if strings.Count(hidden, "/") != strings.Count(path, "/") || strings.IndexByte(hidden, '\\') >= 0 {
		return faultSlash
	}
	for i := range len(hidden) {
		if fault := checkDecodedByte(hidden[i]); hidden[i] != '/' && fault != "" {
			return fault
		}
	}
	return checkSegments(hidden)
}

// decodeHidden returns a decoded path with the escapes in it decoded. The
// percent sign of an escape may be escaped any number of times.
func decodeHidden(path string) string {
	var b strings.Builder
	b.Grow(len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			end := i
			for strings.HasPrefix(path[end+1:], "25") {
				end += 2
			}
			if hidden, ok := escapedByte(path, end); ok {
				c, i = hidden, end+2
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// checkOverlong returns a fault when the path holds a byte sequence that a
// lenient UTF-8 decoder reads as a character which has a shorter spelling. It
// returns "" for any other path.
func checkOverlong(path string) string {
	for i := 0; i+1 < len(path); i++ {
		lead, next := path[i], path[i+1]
		switch {
		case lead < 0xc0 || next < 0x80 || next > 0xbf:
		case lead <= 0xc1, lead == 0xe0 && next < 0xa0, lead == 0xf0 && next < 0x90:
			return faultUTF8
		}
	}
	return ""
}
