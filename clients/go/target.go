package cardclient

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTarget is the largest request target that the gateway takes, in bytes.
const maxTarget = 8 << 10

var (
	pathBytes  = regexp.MustCompile(`^/(?:[!$&-;=@-\[\]_a-z~]|%[0-9A-Fa-f]{2})*$`)
	queryBytes = regexp.MustCompile(`^(?:[!"$&-~]|%[0-9A-Fa-f]{2})*$`)
	escape     = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	// overlong is UTF-8 that spells a character in more bytes than needed.
	overlong = regexp.MustCompile(`(?s-m)[\x{c0}\x{c1}][\x{80}-\x{bf}]|\x{e0}[\x{80}-\x{9f}]|\x{f0}[\x{80}-\x{8f}]`)
)

// checkTarget returns why the gateway would refuse the target, and what to do,
// or "". The gateway refuses what two servers could read in two ways; besides,
// it knows its operations and refuses what only resembles one.
func checkTarget(target string) string {
	path, query := target, ""
	if i := strings.IndexByte(target, '?'); i >= 0 {
		path, query = target[:i], target[i+1:]
	}
	switch {
	case len(target) > maxTarget:
		return "the path and query are longer than 8 KiB"
	case !strings.HasPrefix(path, "/"):
		return "the path must begin with a slash"
	case !pathBytes.MatchString(path):
		return "the path holds a character that must be percent-encoded, or a % without two hexadecimal digits: write é as %C3%A9, a blank as %20"
	case !queryBytes.MatchString(query):
		return "the query holds a character that must be percent-encoded, or a % without two hexadecimal digits: write é as %C3%A9, a blank as %20"
	}
	decoded := decode(path)
	if strings.Count(decoded, "/") != strings.Count(path, "/") || strings.ContainsAny(decoded, "\\\x7f") || strings.IndexFunc(decoded, func(r rune) bool { return r < ' ' }) >= 0 {
		return "the path holds an encoded slash, backslash or control character; no identifier of the API has one"
	}
	if overlong.MatchString(latin1(decoded)) {
		return "the path holds overlong UTF-8; encode the shortest form of the character"
	}
	for _, segment := range strings.Split(strings.TrimSuffix(decoded[1:], "/"), "/") {
		if decoded != "/" && vanishes(segment) {
			return "the path holds an empty segment, or one of dots and blanks; is an identifier empty?"
		}
	}
	return ""
}

// decode decodes the escapes of a path, also those within escapes.
func decode(path string) string {
	for escape.MatchString(path) {
		path = escape.ReplaceAllStringFunc(path, func(s string) string {
			b, _ := strconv.ParseUint(s[1:], 16, 8)
			return string([]byte{byte(b)})
		})
	}
	return path
}

// latin1 returns a text with a character for each byte, for regular expressions.
func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range runes {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// vanishes reports whether some servers drop the segment.
func vanishes(segment string) bool {
	name := strings.SplitN(segment, ";", 2)[0]
	blank := func(r rune) bool {
		return r == '+' || r == utf8.RuneError || unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)
	}
	if dot := strings.IndexByte(name, '.'); dot > 0 && strings.TrimFunc(name[:dot], blank) == "" {
		return true
	}
	return strings.TrimFunc(name, func(r rune) bool { return r == '.' || blank(r) }) == ""
}
