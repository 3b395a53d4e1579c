package cardsign

import (
	"strings"
	"testing"
)

// shellWord reads one word as a POSIX shell does, with the syntax that shellQuote
// uses: plain characters, single quotes and a backslash before a quote.
func shellWord(t *testing.T, text string) string {
	t.Helper()
	var word strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				t.Fatalf("%s has an open quote", text)
			}
			word.WriteString(text[i+1 : i+1+end])
			i += end + 1
		case '\\':
			i++
			word.WriteByte(text[i])
		default:
			if strings.IndexByte(" \t\n\"$`&|;<>()*?[]#~!{}", text[i]) >= 0 {
				t.Fatalf("%q stands bare in %s", text[i], text)
			}
			word.WriteByte(text[i])
		}
	}
	return word.String()
}

func FuzzShellQuote(f *testing.F) {
	for _, seed := range []string{"", "a", "it's", "'", "''", "$HOME `id`", "a b", "a\nb", `\`, "~", "#", "é", "\xff", "a=b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, word string) {
		quoted := shellQuote(word)
		if got := shellWord(t, quoted); got != word || quoted == "" {
			t.Errorf("%q is written %s, which is read %q", word, quoted, got)
		}
	})
}

func FuzzSplitURL(f *testing.F) {
	for _, seed := range []string{"http://h/p?q", "https://h", "http://h?q", "http://[::1]:80/%2f", "http://u@h/", "http://h/#f", "ftp://h/", "http://", "h/p", "http://h//x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		base, target, err := splitURL(address)
		if err != nil {
			return
		}
		if !strings.HasPrefix(target, "/") || base.Host == "" || base.Path != "" || base.RawQuery != "" {
			t.Fatalf("%q: %v and %q", address, base, target)
		}
		if !strings.HasSuffix(address, strings.TrimPrefix(target, "/")) {
			t.Errorf("%q: the target %q is not as typed", address, target)
		}
	})
}
