package explain

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf16"
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
	for _, text := range []string{"{}", "[]", `""`, "null", "undefined", "None", "[object Object]"} {
		if sent.fits(sha256.Sum256([]byte(text))) {
			e.found = append(e.found, Finding{HashOfText, text})
			return
		}
	}
	before := len(e.found)
	if n := len(e.Body.Bytes); n > 0 && n <= MaxBody {
		for _, v := range bodyForms(e.Body.Bytes) {
			if sent.fits(sha256.Sum256(v.body)) {
				e.add(v.kind, v.subject)
				break
			}
		}
	}
	switch {
	case e.Body.Size == 0:
		e.add(BodyAbsent, "")
	case len(e.found) == before && bytes.HasPrefix(e.Body.Bytes, []byte("--")) && bytes.Contains(e.Body.Bytes, []byte("\r\nContent-Disposition: form-data")):
		e.add(BodyBoundary, "")
	case !e.Failed.Has(auth.RuleSignature) && len(e.found) == before:
		e.add(BodyChanged, "")
	case len(e.found) == before:
		e.add(BodyDiffers, strconv.FormatInt(e.Body.Size, 10))
	}
}

// A bodyForm is the body that the client may have hashed.
type bodyForm struct {
	kind    Kind
	subject string
	body    []byte
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// bodyForms returns the other forms of a body that came.
func bodyForms(body []byte) []bodyForm {
	forms := []bodyForm{
		{BodyNoFinalLineFeed, "", append(bytes.Clone(body), '\n')},
		{BodyNoFinalLineFeed, "", append(bytes.Clone(body), '\r', '\n')},
		{BodyBOM, "", append(bytes.Clone(byteOrderMark), body...)},
		{BodyLF, "", bytes.ReplaceAll(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))},
		{BodyCRLF, "", bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))},
	}
	if trimmed := bytes.TrimRight(body, "\r\n"); len(trimmed) < len(body) {
		forms = append(forms, bodyForm{BodyFinalLineFeed, "", trimmed})
	}
	if rest, ok := bytes.CutPrefix(body, byteOrderMark); ok {
		forms = append(forms, bodyForm{BodyBOM, "", rest})
	}
	if utf8.Valid(body) {
		if latin, ok := toLatin1(body); ok {
			forms = append(forms, bodyForm{BodyLatin1, "", latin})
		}
	} else {
		forms = append(forms, bodyForm{BodyLatin1, "", fromLatin1(body)})
	}
	forms = append(forms, jsonForms(body)...)
	var compact bytes.Buffer
	if depth(body) > maxDepth || json.Compact(&compact, body) != nil {
		return forms
	}
	forms = append(forms, bodyForm{BodyCompact, "", compact.Bytes()}, bodyForm{BodyCompact, "", spaced(compact.Bytes())})
	for _, text := range slices.Concat(nameOrders(compact.Bytes(), ","), nameOrders(spaced(compact.Bytes()), ", ")) {
		forms = append(forms, bodyForm{BodyOrder, "", text})
	}
	for by, subject := range map[string]string{"  ": "two blanks", "    ": "four blanks", "\t": "tabs"} {
		var indented bytes.Buffer
		_ = json.Indent(&indented, compact.Bytes(), "", by) // it is valid
		forms = append(forms, bodyForm{BodyIndented, subject, indented.Bytes()})
	}
	return forms
}

// jsonForms returns what other serialisers write, and a body before it was compressed or
// cut.
func jsonForms(body []byte) []bodyForm {
	if inner, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
		if plain, err := io.ReadAll(io.LimitReader(inner, MaxBody)); err == nil {
			return []bodyForm{{BodyCompressed, "", plain}}
		}
	}
	var inner string
	if json.Unmarshal(body, &inner) == nil {
		return []bodyForm{{BodyString, "", []byte(inner)}}
	}
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, body)
	forms := []bodyForm{
		{BodyEscaped, "", escaped.Bytes()},
		{BodyEscaped, "", unicodeEscape.ReplaceAllFunc(body, unescapeUnicode)},
		{BodyEscaped, "", escapeUnicode(body, "\\u%04x")},
		{BodyEscaped, "", escapeUnicode(body, "\\u%04X")},
		{BodyEscaped, "", bytes.ReplaceAll(body, []byte(`\/`), []byte("/"))},
		{BodyEscaped, "", bytes.ReplaceAll(body, []byte("/"), []byte(`\/`))},
		{BodyNumbers, "", wholeNumber.ReplaceAll(body, []byte("$1"))},
		{BodyNumbers, "", withDecimals(body, ".0")},
		{BodyNumbers, "", withDecimals(body, ".00")},
	}
	for _, end := range []string{"}", `"}`, "}}", `"}}`, "]}", `"]}`, "}]}"} {
		forms = append(forms, bodyForm{BodyCut, "", append(bytes.Clone(body), end...)})
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if depth(body) > maxDepth || decoder.Decode(&value) != nil {
		return forms
	}
	var sorted bytes.Buffer
	encoder := json.NewEncoder(&sorted)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) == nil {
		compact := bytes.TrimSpace(sorted.Bytes())
		forms = append(forms, bodyForm{BodyOrder, "", compact}, bodyForm{BodyOrder, "", spaced(compact)})
	}
	return forms
}

var (
	unicodeEscape = regexp.MustCompile(`\\u[0-9A-Fa-f]{4}(?:\\u[dD][c-fC-F][0-9A-Fa-f]{2})?`)
	wholeNumber   = regexp.MustCompile(`([:\[,]\s*-?[0-9]+)\.0+\b`)
	number        = regexp.MustCompile(`[:\[,]\s*-?[0-9][0-9.eE+-]*`)
)

// withDecimals returns the JSON with decimals behind its integers.
func withDecimals(body []byte, decimals string) []byte {
	return number.ReplaceAllFunc(body, func(text []byte) []byte {
		if bytes.ContainsAny(text, ".eE") {
			return text
		}
		return append(bytes.Clone(text), decimals...)
	})
}

// maxOrdered and maxNames are the largest compact JSON, in bytes, and the most names of
// which each order is tried.
const (
	maxOrdered = 4 << 10
	maxNames   = 5
)

// nameOrders returns a JSON object with the names of its first level in each order.
func nameOrders(object []byte, separator string) (all [][]byte) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') || len(object) > maxOrdered {
		return nil
	}
	var members [][]byte
	for decoder.More() {
		var value json.RawMessage
		from := decoder.InputOffset()
		if _, err := decoder.Token(); err != nil || decoder.Decode(&value) != nil || len(members) == maxNames {
			return nil
		}
		members = append(members, bytes.TrimLeft(object[from:decoder.InputOffset()], ", "))
	}
	var from func(at int)
	from = func(at int) {
		if at == len(members) {
			all = append(all, slices.Concat([]byte("{"), bytes.Join(members, []byte(separator)), []byte("}")))
		}
		for i := at; i < len(members); i++ {
			members[at], members[i] = members[i], members[at]
			from(at + 1)
			members[at], members[i] = members[i], members[at]
		}
	}
	from(0)
	return all
}

func unescapeUnicode(escape []byte) []byte {
	var text string
	if json.Unmarshal(append(append([]byte{'"'}, escape...), '"'), &text) != nil {
		return escape
	}
	return []byte(text)
}

// escapeUnicode writes what is not ASCII as JSON escapes.
func escapeUnicode(body []byte, format string) []byte {
	var b []byte
	for _, r := range string(body) {
		if r < utf8.RuneSelf {
			b = append(b, byte(r))
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			b = fmt.Appendf(b, format, unit)
		}
	}
	return b
}

// spaced returns compact JSON as Python writes it, with a blank behind colons and commas.
func spaced(compact []byte) []byte {
	var b []byte
	inText := false
	for i, c := range compact {
		b = append(b, c)
		if c == '"' && (i == 0 || compact[i-1] != '\\') {
			inText = !inText
		}
		if !inText && (c == ':' || c == ',') {
			b = append(b, ' ')
		}
	}
	return b
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
