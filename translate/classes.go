package translate

// A class is a set of ASCII characters.
type class [128]bool

var (
	digit  = chars("0123456789")
	upper  = chars("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	spacer = chars(" -.()/") // what people write between digits of a phone number
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
		if !inAny(b, classes) {
			return i
		}
	}
	return len(s)
}

func inAny(b byte, classes []*class) bool {
	for _, c := range classes {
		if c.has(b) {
			return true
		}
	}
	return false
}
