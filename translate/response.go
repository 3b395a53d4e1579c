package translate

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Why an answer cannot be translated although it is valid JSON.
var (
	errNoCustomer = errors.New("holds neither a customer nor a list of customers")
	errNoList     = errors.New("holds no list of customers")
	errTwice      = errors.New("holds a field in two spellings")
	errNoDate     = errors.New("holds a date that is neither YYYY-MM-DD nor an ISO 8601 date-time")
)

// errEnvelope says that what was read as a bare customer is an envelope.
var errEnvelope = errors.New("is an envelope")

// Response translates an issuer's answer, bare or in an envelope, to the
// variant that asked. With [None] it returns body itself.
//
// A and B get an envelope, C the bare record or list; a list of C that comes
// with a pagination object is {"data":[…],"pagination":{…}}. The error says
// what is wrong with the answer and never quotes it; the answer must then be
// withheld.
func Response(body []byte, opt ResponseOptions) ([]byte, error) {
	if opt.Variant == None {
		return body, nil
	}
	w := walkers.Get().(*walker)
	defer walkers.Put(w)
	defer w.close()
	w.to = opt.Variant.form()
	a := answer{walker: w, opt: opt}
	err := a.read(body, a.bare)
	if errors.Is(err, errEnvelope) {
		err = a.read(body, a.envelope)
	}
	if err != nil {
		return nil, fmt.Errorf("the answer %w", withheld(err))
	}
	return a.out, nil
}

// An answer is one answer that is being translated.
type answer struct {
	*walker
	opt    ResponseOptions
	isList bool
	// What an envelope holds, as pieces of the output; nil: nothing.
	data, pagination *span
	requestID        bool
	timestamp        bool
}

// A span is a piece of the output.
type span struct{ start, end int }

// read reads the whole text in one of two ways: bare or envelope.
func (a *answer) read(body []byte, way func(first token) error) error {
	a.open(body, MaxResponseTokens)
	first, err := a.next()
	if err != nil {
		return err
	}
	if err = way(first); err != nil {
		return err
	}
	return a.finish()
}

// bare translates a customer or a list that stands alone.
func (a *answer) bare(first token) error {
	if !first.opens() {
		return errNoCustomer
	}
	a.bareRecord = true
	a.startOutput()
	a.copied = first.start
	enveloped := a.opt.Variant != C
	if enveloped {
		a.out = append(a.out, `{"data":`...)
	}
	end, err := a.payload(first)
	if err != nil {
		return err
	}
	a.upTo(end)
	if enveloped {
		a.complete()
		a.out = append(a.out, '}')
	}
	return nil
}

// payload translates a customer, or each customer of a list, and returns its
// end in the source.
func (a *answer) payload(first token) (end int, err error) {
	a.isList = first.kind == '['
	switch {
	case a.isList:
		return a.list()
	case first.kind == 'n':
		return first.end, nil
	case first.kind != '{':
		return 0, errNoCustomer
	}
	if err = a.customer(); err != nil {
		return 0, err
	}
	if a.opt.List {
		return 0, errNoList
	}
	return int(a.dec.InputOffset()), nil
}

// list translates the elements of an array whose bracket has been read.
func (a *answer) list() (end int, err error) {
	a.bareRecord = false
	for {
		element, err := a.next()
		if err != nil {
			return 0, err
		}
		switch element.kind {
		case ']':
			return element.end, nil
		case '{':
			err = a.customer()
		default:
			_, err = a.skip(element)
		}
		if err != nil {
			return 0, err
		}
	}
}

// customer translates one customer whose bracket has been read.
func (a *answer) customer() error {
	a.start()
	if err := a.object(top); err != nil {
		return err
	}
	if a.badDate {
		return errNoDate
	}
	for i := range a.seen {
		if a.seen[i].again != nil {
			return errTwice
		}
	}
	return nil
}

// envelope translates an envelope whose bracket has been read.
func (a *answer) envelope(token) error {
	a.bareRecord = false
	a.startOutput()
	for {
		name, err := a.next()
		if err != nil {
			return err
		}
		if name.kind == '}' {
			a.closeEnvelope(name)
			return nil
		}
		if err = a.member(name); err != nil {
			return err
		}
	}
}

// member translates one member of the envelope, whose name has been read.
func (a *answer) member(name token) error {
	known := string(a.text(name))
	if known == "requestId" {
		known = "request_id"
		a.replace(name, known)
	}
	value, err := a.next()
	if err != nil {
		return err
	}
	switch known {
	case "data":
		a.data, err = a.piece(value, a.payload)
	case "pagination":
		a.pagination, err = a.piece(value, a.pages)
	case "request_id":
		err = a.own(value, &a.requestID)
	case "timestamp":
		err = a.own(value, &a.timestamp)
	default:
		_, err = a.skip(value)
	}
	return err
}

// piece translates a value and returns where it stands in the output.
func (a *answer) piece(value token, way func(token) (end int, err error)) (*span, error) {
	a.upTo(value.start)
	start := len(a.out)
	end, err := way(value)
	if err != nil {
		return nil, err
	}
	a.upTo(end)
	return &span{start, len(a.out)}, nil
}

// own keeps a value that the issuer gave the envelope itself.
func (a *answer) own(value token, seen *bool) error {
	if *seen {
		return errTwice
	}
	*seen = true
	_, err := a.skip(value)
	return err
}

// pages translates a pagination object to its published names, which are the
// same for every variant.
func (a *answer) pages(value token) (end int, err error) {
	if value.kind != '{' {
		return a.skip(value)
	}
	hasMore := false
	for {
		name, err := a.next()
		if err != nil || name.kind == '}' {
			return name.end, err
		}
		switch string(a.text(name)) {
		case "has_more":
			a.replace(name, "hasMore")
			fallthrough
		case "hasMore":
			if hasMore {
				return 0, errTwice
			}
			hasMore = true
		}
		if value, err = a.next(); err != nil {
			return 0, err
		}
		if _, err = a.skip(value); err != nil {
			return 0, err
		}
	}
}

// closeEnvelope ends the output at the bracket that closes the envelope.
func (a *answer) closeEnvelope(bracket token) {
	a.upTo(bracket.start)
	if a.opt.Variant != C {
		a.complete()
		a.upTo(len(a.src))
		return
	}
	data := a.out[a.data.start:a.data.end]
	if !a.isList || a.pagination == nil {
		a.out = data
		return
	}
	pagination := a.out[a.pagination.start:a.pagination.end]
	list := make([]byte, 0, len(data)+len(pagination)+32)
	list = append(append(list, `{"data":`...), data...)
	list = append(append(list, `,"pagination":`...), pagination...)
	a.out = append(list, '}')
}

// complete adds what an envelope has and the issuer did not send.
func (a *answer) complete() {
	if !a.requestID {
		a.out = append(a.out, `,"request_id":`...)
		// An error would say that the id was not UTF-8, and that it was mended.
		a.out, _ = jsontext.AppendQuote(a.out, a.opt.RequestID)
	}
	if !a.timestamp {
		a.out = append(a.out, `,"timestamp":"`...)
		a.out = a.opt.Now.UTC().AppendFormat(a.out, time.RFC3339)
		a.out = append(a.out, '"')
	}
}

// withheld turns an error of reading into one that quotes nothing of the
// answer and may be logged.
func withheld(err error) error {
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("is empty")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return errors.New("holds a name twice in one object")
	case errors.As(err, &syntactic):
		return fmt.Errorf("is not valid JSON at byte %d", syntactic.ByteOffset)
	}
	return err
}
