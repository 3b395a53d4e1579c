package explain

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
)

// A form is how a header writes the 32 bytes of a digest.
type form struct {
	kinds []Kind // what is wrong with it; empty: nothing
	raw   []byte // the bytes that were meant; nil when they cannot be told
	bytes []byte // the same, of any length
	text  string // the base64 without what is around it
}

// readForm reads a digest as leniently as possible.
func readForm(value string) form {
	f := form{text: value}
	f.unwrap()
	if raw, err := hex.DecodeString(f.text); err == nil && len(raw) >= 16 {
		f.kinds = append(f.kinds, FormHex)
		f.take(raw)
		return f
	}
	f.decode()
	if len(f.kinds) == 0 && (f.raw == nil || base64.StdEncoding.EncodeToString(f.raw) != value) {
		f.kinds = append(f.kinds, FormSpelling)
	}
	return f
}

// unwrap takes away what is around the digits, and notes it.
func (f *form) unwrap() {
	for _, end := range []string{`\n`, `\r`, "\n", "\r", "%0A", "%0a", "%0D", "%0d"} {
		if text, ok := strings.CutSuffix(f.text, end); ok {
			f.text = text
			f.note(FormLineFeed)
		}
	}
	if n := len(f.text); n >= 2 && (f.text[0] == '"' || f.text[0] == '\'') && f.text[n-1] == f.text[0] {
		f.text = f.text[1 : n-1]
		f.note(FormQuotes)
	}
	if text, ok := cutPrefix(f.text); ok {
		f.text = text
		f.note(FormPrefix)
	}
	escapes := strings.NewReplacer("%2B", "+", "%2b", "+", "%2F", "/", "%2f", "/", "%3D", "=", "%3d", "=")
	if text := escapes.Replace(f.text); text != f.text {
		f.text = text
		f.note(FormEscaped)
	}
	if strings.ContainsAny(f.text, " \t\r\n") {
		if len(f.text) == digestText { // a + was decoded
			f.text = strings.ReplaceAll(f.text, " ", "+")
		}
		f.text = strings.Join(strings.Fields(f.text), "")
		f.note(FormBlank)
	}
}

// cutPrefix cuts the name of an algorithm off: sha256=…, sha-256=:…:,
// hmac-sha256 … and the like.
func cutPrefix(text string) (string, bool) {
	at := strings.IndexAny(text, "=: ")
	if at < 2 || at > 20 || len(text)-at < 20 || strings.Trim(text[:at], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return text, false
	}
	if name := strings.ToLower(text[:at]); text[at] == ' ' && !strings.HasPrefix(name, "hmac") && !strings.HasPrefix(name, "sha") {
		return text, false
	}
	rest := strings.TrimSpace(text[at+1:])
	if inner, ok := strings.CutPrefix(rest, ":"); ok {
		rest = strings.TrimSuffix(inner, ":")
	}
	return rest, true
}

// digestText is the length of 32 bytes in base64 with padding.
const digestText = 44

// decode reads the text as base64 of any kind.
func (f *form) decode() {
	text := f.text
	if strings.ContainsAny(text, "-_") {
		f.note(FormBase64URL)
		text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
	}
	bare := strings.TrimRight(text, "=")
	raw, err := base64.RawStdEncoding.DecodeString(bare)
	if err != nil || bare == "" {
		f.note(FormUnreadable)
		return
	}
	if len(bare) == len(text) && len(bare)%4 != 0 {
		f.note(FormUnpadded)
	}
	f.text = bare + strings.Repeat("=", -len(bare)&3)
	if inner, err := hex.DecodeString(string(raw)); err == nil && len(inner) >= 16 {
		f.note(FormHexText)
		raw = inner
	} else if inner, err := base64.StdEncoding.DecodeString(string(raw)); err == nil && len(inner) == sha256.Size {
		f.note(FormTwice)
		raw = inner
	}
	f.take(raw)
}

// take keeps the bytes if they are a SHA-256.
func (f *form) take(raw []byte) {
	f.bytes = raw
	if len(raw) != sha256.Size {
		f.note(FormLength)
		return
	}
	f.raw = raw
}

func (f *form) note(kind Kind) {
	if !slices.Contains(f.kinds, kind) {
		f.kinds = append(f.kinds, kind)
	}
}

// fits reports whether the digest was meant, apart from its form.
func (f *form) fits(sum [sha256.Size]byte) bool {
	return f.raw != nil && [sha256.Size]byte(f.raw) == sum
}

// fitsInCase reports whether the text is that of the digest but for its letter
// case.
func (f *form) fitsInCase(sum [sha256.Size]byte) bool {
	return strings.EqualFold(f.text, base64.StdEncoding.EncodeToString(sum[:]))
}

// begins reports whether the text is the beginning of the digest.
func (f *form) begins(sum [sha256.Size]byte) bool {
	return len(f.bytes) >= 16 && bytes.HasPrefix(sum[:], f.bytes)
}

// signs reports whether the secret makes the signature of the text, apart from
// its form.
func signs(s *auth.Secret, text string, sent *form) bool {
	sum := digest(s, text)
	return sent.fits(sum) || sent.fitsInCase(sum) || sent.begins(sum)
}

// digest returns the HMAC of the text.
func digest(s *auth.Secret, text string) [sha256.Size]byte {
	raw, err := base64.StdEncoding.DecodeString(s.Sign([]byte(text)))
	if err != nil || len(raw) != sha256.Size {
		panic("a signature of package auth is not 32 bytes in base64")
	}
	return [sha256.Size]byte(raw)
}
