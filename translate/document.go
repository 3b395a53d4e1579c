package translate

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A token is a name, a scalar value or a bracket, by where it stands in the
// source. Kind is as in jsontext: the first byte, '0' for every number.
type token struct {
	kind       jsontext.Kind
	start, end int
}

// opens reports whether the token begins an object or an array.
func (t token) opens() bool { return t.kind == '{' || t.kind == '[' }

// A document is a JSON text that is read token by token and copied with edits.
// The decoder beneath refuses what two parsers could read differently:
// duplicate names, invalid UTF-8, lone surrogates.
type document struct {
	src     []byte
	in      bytes.Buffer
	dec     *jsontext.Decoder
	tokens  int // still allowed
	out     []byte
	copied  int // src[:copied] is in out or was left out of it
	scratch []byte
}

// maxScratch is how much room for unescaped text is kept for the next document.
const maxScratch = 64 << 10

// Why a document is refused although its grammar is right.
var (
	errTooDeep       = errors.New("is nested more than " + strconv.Itoa(MaxDepth) + " levels deep")
	errTooManyTokens = errors.New("holds too many names and values")
	errTrailingData  = errors.New("goes on after the end of the JSON value")
	errEmpty         = errors.New("is empty; a JSON object is expected")
)

// open begins to read src, which must stay unchanged until close.
func (d *document) open(src []byte, maxTokens int) {
	if d.dec == nil {
		d.dec = jsontext.NewDecoder(&d.in)
	}
	d.in = *bytes.NewBuffer(src)
	d.dec.Reset(&d.in)
	d.src, d.tokens = src, maxTokens
	d.out, d.copied = nil, 0
}

// close lets go of the source.
func (d *document) close() {
	d.in = bytes.Buffer{}
	d.dec.Reset(&d.in)
	d.src, d.out = nil, nil
	if cap(d.scratch) > maxScratch {
		d.scratch = nil
	}
}

// next reads one token. At the end of the text the error is io.EOF.
func (d *document) next() (token, error) {
	if d.tokens--; d.tokens < 0 {
		return token{}, errTooManyTokens
	}
	kind := d.dec.PeekKind()
	switch kind {
	case '{', '[', '}', ']':
		if _, err := d.dec.ReadToken(); err != nil {
			return token{}, err
		}
		if d.dec.StackDepth() > MaxDepth {
			return token{}, errTooDeep
		}
		end := int(d.dec.InputOffset())
		return token{kind, end - 1, end}, nil
	default:
		raw, err := d.dec.ReadValue()
		if err != nil {
			return token{}, err
		}
		end := int(d.dec.InputOffset())
		return token{kind, end - len(raw), end}, nil
	}
}

// finish reads what follows the value, which must be nothing.
func (d *document) finish() error {
	if _, err := d.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errTrailingData
	}
	return nil
}

// skip reads the rest of the value that begins with t and returns its end.
func (d *document) skip(t token) (end int, err error) {
	if !t.opens() {
		return t.end, nil
	}
	for depth := d.dec.StackDepth(); d.dec.StackDepth() >= depth; {
		if t, err = d.next(); err != nil {
			return 0, err
		}
	}
	return t.end, nil
}

// text returns the characters of a string token. The bytes are valid until
// the next call, or as long as the source.
func (d *document) text(t token) []byte {
	inner := d.src[t.start+1 : t.end-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	// The decoder has checked the string, so that no error can occur.
	d.scratch, _ = jsontext.AppendUnquote(d.scratch[:0], d.src[t.start:t.end])
	return d.scratch
}

// startOutput makes room for the output, which is a little longer than the
// source when names grow or an envelope is added.
func (d *document) startOutput() {
	d.out = make([]byte, 0, len(d.src)+len(d.src)/8+128)
}

// upTo copies the source up to the offset.
func (d *document) upTo(offset int) {
	if d.out == nil {
		d.startOutput()
	}
	d.out = append(d.out, d.src[d.copied:offset]...)
	d.copied = offset
}

// replace writes a string in the place of a string token.
func (d *document) replace(t token, text string) {
	d.upTo(t.start)
	d.out = append(d.out, '"')
	d.out = append(d.out, text...)
	d.out = append(d.out, '"')
	d.copied = t.end
}

// edited returns the whole text with its edits, or the source itself when
// there are none.
func (d *document) edited() []byte {
	if d.out == nil {
		return d.src
	}
	d.upTo(len(d.src))
	return d.out
}

// explain turns an error of reading into the problem that the client is told.
func explain(err error) Problem {
	var syntactic *jsontext.SyntacticError
	switch {
	case !errors.As(err, &syntactic):
		return Problem{Message: "the body " + err.Error()}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return Problem{Field: dotted(syntactic.JSONPointer), Message: "appears more than once"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Problem{Message: "the body ends in the middle of its JSON value"}
	}
	at := strconv.FormatInt(syntactic.ByteOffset, 10)
	return Problem{Message: "the body is not valid JSON in UTF-8, from byte " + at + " on"}
}

// dotted writes a JSON pointer as field names are written in problems, cut to
// a length that is fit to show.
func dotted(p jsontext.Pointer) string {
	const most = 100
	var b strings.Builder
	for name := range p.Tokens() {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(name)
	}
	path := b.String()
	if len(path) <= most {
		return path
	}
	cut := most
	for !utf8.RuneStart(path[cut]) {
		cut--
	}
	return path[:cut] + "…"
}

// walkers are pooled for their decoder, whose buffers are worth keeping.
var walkers = sync.Pool{New: func() any { return new(walker) }}
