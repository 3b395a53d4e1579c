package translate

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// A token is a name, a scalar value or a bracket, by its position in the
// source. Kind is the kind of jsontext: the first byte, '0' for every number.
type token struct {
	kind       jsontext.Kind
	start, end int
}

// read reports whether the token has been read: the zero token has not.
func (t token) read() bool { return t.end > 0 }

// opens reports whether the token starts an object or an array.
func (t token) opens() bool { return t.kind == '{' || t.kind == '[' }

// A document reads a JSON text token by token and copies it with edits. Its
// decoder refuses texts that two parsers could read differently: duplicate
// names, invalid UTF-8, lone surrogates.
type document struct {
	src     []byte
	in      bytes.Buffer
	dec     *jsontext.Decoder
	allowed bounds
	out     []byte
	copied  int // src[:copied] is in out, or is left out on purpose
	scratch []byte
}

// A bounds limits what a document may hold.
type bounds struct {
	tokens int  // number of tokens that may still be read
	nul    bool // allows the character U+0000, which many databases cannot store
}

var (
	requestBounds = bounds{tokens: MaxRequestTokens}
	answerBounds  = bounds{tokens: MaxResponseTokens, nul: true}
)

// maxScratch is the largest buffer for unescaped text, in bytes, that is kept
// for the next document.
const maxScratch = 64 << 10

// Errors of a document with correct grammar. Each continues "the body".
var (
	errTooDeep       = errors.New("is nested more than " + strconv.Itoa(MaxDepth) + " levels deep")
	errTooManyTokens = errors.New("has too many names and values")
	errTrailingData  = errors.New("has more text after the end of the JSON value")
	errEmpty         = errors.New("is empty; a JSON object is expected")
)

// open starts to read src, which must stay unchanged until close.
func (d *document) open(src []byte, allowed bounds) {
	if d.dec == nil {
		d.dec = jsontext.NewDecoder(&d.in)
	}
	d.in = *bytes.NewBuffer(src)
	d.dec.Reset(&d.in)
	d.src, d.allowed = src, allowed
	d.out, d.copied = nil, 0
}

// close releases the source.
func (d *document) close() {
	d.in = bytes.Buffer{}
	d.dec.Reset(&d.in)
	d.src, d.out = nil, nil
	if cap(d.scratch) > maxScratch {
		d.scratch = nil
	}
}

// next reads one token. It returns io.EOF at the end of the text.
func (d *document) next() (token, error) {
	if d.allowed.tokens--; d.allowed.tokens < 0 {
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
		t := token{kind, end - len(raw), end}
		if kind == '"' && !d.allowed.nul && bytes.IndexByte(d.text(t), 0) >= 0 {
			return token{}, nulError{d.dec.StackPointer()}
		}
		return t, nil
	}
}

// finish returns an error when the text goes on after the value.
func (d *document) finish() error {
	if _, err := d.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errTrailingData
	}
	return nil
}

// skip reads the rest of the value that starts with t and returns the offset
// of its end.
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

// text returns the characters of a string token. The bytes are valid until the
// next call.
func (d *document) text(t token) []byte {
	inner := d.src[t.start+1 : t.end-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	// No error is possible: the decoder has checked the string.
	d.scratch, _ = jsontext.AppendUnquote(d.scratch[:0], d.src[t.start:t.end])
	return d.scratch
}

// startOutput allocates the output. It is a little longer than the source
// because names may grow and an envelope may be added.
func (d *document) startOutput() {
	d.out = make([]byte, 0, len(d.src)+len(d.src)/8+128)
}

// upTo copies the source up to the offset. The offset must not be less than in
// an earlier call.
func (d *document) upTo(offset int) {
	if d.out == nil {
		d.startOutput()
	}
	d.out = append(d.out, d.src[d.copied:offset]...)
	d.copied = offset
}

// replace writes a string instead of a string token. The text needs no
// escapes.
func (d *document) replace(t token, text string) {
	d.upTo(t.start)
	d.out = append(d.out, '"')
	d.out = append(d.out, text...)
	d.out = append(d.out, '"')
	d.copied = t.end
}

// edited returns the whole text with its edits. Without edits it returns the
// source itself.
func (d *document) edited() []byte {
	if d.out == nil {
		return d.src
	}
	d.upTo(len(d.src))
	return d.out
}

// A nulError reports a string with the character U+0000.
type nulError struct{ at jsontext.Pointer }

func (nulError) Error() string { return "holds the character U+0000" }

// A seen is what a document holds of one field.
type seen struct {
	as      *spelling // the first spelling; nil: the field is absent
	name    token     // its name
	value   token     // the first token of its value
	again   token     // the name of a second spelling of the same field
	folded  token     // its first name that no variant uses
	foreign bool      // the variants that fit the names before do not use this name
}

// A walker reads customers and renames their fields to one form.
type walker struct {
	document
	to   Form
	seen [len(fields)]seen
	// fits is the set of variants that use all names seen so far.
	fits variants
	// badDate is set when a date of birth must be converted and cannot be.
	badDate bool
	// bareRecord is set while an answer is read as a bare record, although it
	// may be an envelope.
	bareRecord bool
}

// start forgets the customer before.
func (w *walker) start() {
	clear(w.seen[:])
	w.fits = allVariants
	w.badDate = false
}

// object reads the members of an object at the place, to its end. The opening
// bracket has been read.
func (w *walker) object(at place) error {
	for {
		name, err := w.next()
		if err != nil {
			return err
		}
		if name.kind == '}' {
			return nil
		}
		as := spelled(at, w.text(name))
		value, err := w.next()
		if err != nil {
			return err
		}
		switch {
		case as != nil:
			err = w.field(as, name, value)
		case w.bareRecord && at == top && w.holdsData(name, value):
			err = errEnvelope
		default:
			_, err = w.skip(value)
		}
		if err != nil {
			return err
		}
	}
}

// holdsData reports whether a reader may take the member for the data of an
// envelope, also in a spelling that the envelope will be refused for. No customer
// has a field of that name.
func (w *walker) holdsData(name, value token) bool {
	return (value.opens() || value.kind == 'n') && envelopeNames.known(w.text(name)) == "data"
}

// field converts one known field and reads its value to the end.
func (w *walker) field(as *spelling, name, value token) error {
	w.note(as, name, value)
	f := &fields[as.field]
	if target := f.name(w.to); target != as.text && !as.folded {
		w.replace(name, target)
	}
	if f.date {
		w.date(as, value)
	}
	if f.opens != top && value.kind == '{' {
		return w.object(f.opens)
	}
	_, err := w.skip(value)
	return err
}

// note records that the field is present, and which variants use its name.
func (w *walker) note(as *spelling, name, value token) {
	s := &w.seen[as.field]
	if as.folded && !s.folded.read() {
		s.folded = name
	}
	switch {
	case s.as != nil:
		s.again = name
		return
	case w.fits&as.of == 0:
		s.foreign = true
	default:
		w.fits &= as.of
	}
	s.as, s.name, s.value = as, name, value
}

// date converts a date of birth to the form, or sets badDate when it cannot.
// These values keep their bytes: null, an empty string, and a value that already
// has the form. If the field's name already has the form, only a date of the
// other form changes, and odd values are kept as the record holds them.
func (w *walker) date(as *spelling, value token) {
	own := as.form() == w.to
	if value.kind == '"' {
		text := w.text(value)
		if len(text) == 0 || w.to.hasDate(text) || own && !validDate(text) && !validDateTime(text) {
			return
		}
		if converted, ok := w.to.date(text); ok {
			w.replace(value, converted)
			return
		}
	}
	w.badDate = w.badDate || value.kind != 'n' && !own
}

// walkers are pooled because of the buffers of their decoders.
var walkers = sync.Pool{New: func() any { return new(walker) }}

// errEnvelope reports that a text that was read as a bare customer is an
// envelope.
var errEnvelope = errors.New("is an envelope")
