package explain

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/card-gateway/card-gateway/auth"
)

// body explains rule 9: the form of X-Body-Hash, what else it could be the hash
// of, and at last what the signature says of it.
func (e *explainer) body() {
	sent, sum := readForm(e.Credentials.BodyHash), e.Body.Sum
	size := strconv.FormatInt(e.Body.Size, 10)
	switch {
	case sent.fits(sum):
		e.addForm(&sent, "X-Body-Hash")
	case sent.fitsInCase(sum):
		e.add(FormCase, "X-Body-Hash")
	case sent.fits(sha256.Sum256(nil)):
		e.addForm(&sent, "X-Body-Hash")
		e.add(HashOfNothing, size)
	case e.Body.Size > 0 && isBody(e.Credentials.BodyHash, sum):
		e.add(HashIsBody, "")
	case sent.raw == nil:
		e.addForm(&sent, "X-Body-Hash")
	default:
		e.addForm(&sent, "X-Body-Hash")
		e.otherBody(&sent)
	}
}

// isBody reports whether the value of a header is the body with the sum, bare
// or in base64.
func isBody(value string, sum [sha256.Size]byte) bool {
	decoded, err := base64.StdEncoding.DecodeString(value)
	return sha256.Sum256([]byte(value)) == sum || err == nil && sha256.Sum256(decoded) == sum
}

// otherBody finds what else than the body that came has the hash.
func (e *explainer) otherBody(sent *form) {
	text := hex.EncodeToString(e.Body.Sum[:])
	if sent.fits(sha256.Sum256([]byte(text))) || sent.fits(sha256.Sum256(bytes.ToUpper([]byte(text)))) {
		e.add(HashOfHex, "")
		return
	}
	before := len(e.found)
	if n := len(e.Body.Bytes); n > 0 && n <= MaxBody {
		for _, v := range bodyForms(e.Body.Bytes) {
			if sent.fits(sha256.Sum256(v.body)) {
				e.add(v.kind, "")
				break
			}
		}
	}
	switch {
	case e.Body.Size == 0:
		e.add(BodyAbsent, "")
	case !e.Failed.Has(auth.RuleSignature):
		e.add(BodyChanged, "")
	case len(e.found) == before:
		e.add(BodyDiffers, strconv.FormatInt(e.Body.Size, 10))
	}
}

// A bodyForm is the body that the client may have hashed.
type bodyForm struct {
	kind Kind
	body []byte
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// bodyForms returns the other forms of a body that came.
func bodyForms(body []byte) []bodyForm {
	forms := []bodyForm{
		{BodyNoFinalLineFeed, append(bytes.Clone(body), '\n')},
		{BodyNoFinalLineFeed, append(bytes.Clone(body), '\r', '\n')},
		{BodyBOM, append(bytes.Clone(byteOrderMark), body...)},
		{BodyLF, bytes.ReplaceAll(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))},
		{BodyCRLF, bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))},
	}
	if trimmed := bytes.TrimRight(body, "\r\n"); len(trimmed) < len(body) {
		forms = append(forms, bodyForm{BodyFinalLineFeed, trimmed})
	}
	if rest, ok := bytes.CutPrefix(body, byteOrderMark); ok {
		forms = append(forms, bodyForm{BodyBOM, rest})
	}
	if utf8.Valid(body) {
		if latin, ok := toLatin1(body); ok {
			forms = append(forms, bodyForm{BodyLatin1, latin})
		}
	} else {
		forms = append(forms, bodyForm{BodyLatin1, fromLatin1(body)})
	}
	var compact, indented bytes.Buffer
	if depth(body) <= maxDepth && json.Compact(&compact, body) == nil && json.Indent(&indented, body, "", "  ") == nil {
		forms = append(forms, bodyForm{BodyCompact, compact.Bytes()}, bodyForm{BodyIndented, bytes.TrimRight(indented.Bytes(), " \t\r\n")})
	}
	return forms
}

// maxDepth is how deep a JSON body may be nested to be indented: each level
// makes the lines in it longer.
const maxDepth = 32

// depth returns a bound on how deep a JSON body is nested.
func depth(body []byte) int {
	deepest, level := 0, 0
	for _, c := range body {
		switch c {
		case '{', '[':
			level++
			deepest = max(deepest, level)
		case '}', ']':
			level--
		}
	}
	return deepest
}

// toLatin1 returns the text in ISO 8859-1, and false when it has a character
// that is not in it.
func toLatin1(body []byte) ([]byte, bool) {
	out := make([]byte, 0, len(body))
	for _, r := range string(body) {
		if r > 0xff {
			return nil, false
		}
		out = append(out, byte(r))
	}
	return out, true
}

// fromLatin1 returns the text in UTF-8.
func fromLatin1(body []byte) []byte {
	out := make([]byte, 0, 2*len(body))
	for _, c := range body {
		out = utf8.AppendRune(out, rune(c))
	}
	return out
}
