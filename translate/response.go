package translate

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Response converts an issuer's answer, bare or in an envelope, to
// opt.Variant. With [None] it returns body itself.
//
// Variants A and B get an envelope, variant C the bare record or list. A list
// of C with a pagination object is {"data":[…],"pagination":{…}}.
//
// An error names the reason why the answer cannot be converted. It quotes
// nothing of the answer and may be logged. After an error the caller must not
// send the answer to the client.
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

// bare converts a customer or a list without an envelope.
func (a *answer) bare(first token) error {
	if !first.opens() {
		return errNoCustomer
	}
	a.bareRecord = true
	a.startOutput()
	a.copied = first.start
	enveloped := a.opt.Variant != VariantC
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

// withheld returns the error to report in place of an error of reading. It
// quotes nothing of the answer.
func withheld(err error) error {
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("is empty")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return errors.New("has a name twice in one object")
	case errors.As(err, &syntactic):
		return fmt.Errorf("is not valid JSON at byte %d", syntactic.ByteOffset)
	}
	return err
}

// Errors of an answer that is valid JSON. Each continues "the answer".
var (
	errNoCustomer = errors.New("is neither a customer nor a list of customers")
	errNoList     = errors.New("is not a list of customers")
	errTwice      = errors.New("has a field in two spellings")
	errSpelled    = errors.New("has a field under a name that differs from the published one in case or separators")
	errNoDate     = errors.New("has a date of birth that cannot be written in the variant of the client")
)

// An answer is one answer during its conversion.
type answer struct {
	*walker
	opt    ResponseOptions
	isList bool
	// data and pagination are the envelope's members in the output; nil: absent.
	data, pagination *piece
	// requestID and timestamp report that the envelope has them.
	requestID, timestamp bool
}

// A piece is a part of the output, by its offsets.
type piece struct{ start, end int }

// read reads the whole text by one of two methods: bare or envelope.
func (a *answer) read(body []byte, way func(first token) error) error {
	a.open(body, answerBounds)
	first, err := a.next()
	if err != nil {
		return err
	}
	if err = way(first); err != nil {
		return err
	}
	return a.finish()
}

// payload converts a customer, or each customer of a list, and returns the
// offset of its end in the source.
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

// list converts the elements of an array, whose opening bracket has been read.
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

// customer converts one customer, whose opening bracket has been read.
func (a *answer) customer() error {
	a.start()
	if err := a.object(top); err != nil {
		return err
	}
	if a.badDate {
		return errNoDate
	}
	for i := range a.seen {
		switch s := &a.seen[i]; {
		case s.folded.read():
			return errSpelled
		case s.again.read():
			return errTwice
		}
	}
	return nil
}

// envelope converts an envelope, whose opening bracket has been read.
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

// member converts one member of the envelope, whose name has been read.
func (a *answer) member(name token) error {
	known := envelopeNames.known(a.text(name))
	switch written := string(a.text(name)); {
	case known == "" || written == known:
	case written == "requestId":
		a.replace(name, known)
	default:
		return errSpelled
	}
	value, err := a.next()
	if err != nil {
		return err
	}
	switch known {
	case "data":
		a.data, err = a.part(value, a.payload)
	case "pagination":
		a.pagination, err = a.part(value, a.pages)
	case "request_id":
		err = a.own(value, &a.requestID)
	case "timestamp":
		err = a.own(value, &a.timestamp)
	default:
		_, err = a.skip(value)
	}
	return err
}

// part converts a value and returns its place in the output.
func (a *answer) part(value token, convert func(token) (end int, err error)) (*piece, error) {
	a.upTo(value.start)
	start := len(a.out)
	end, err := convert(value)
	if err != nil {
		return nil, err
	}
	a.upTo(end)
	return &piece{start, len(a.out)}, nil
}

// own keeps a value that the issuer set in the envelope, and sets seen.
func (a *answer) own(value token, seen *bool) error {
	if *seen {
		return errTwice
	}
	*seen = true
	_, err := a.skip(value)
	return err
}

// pages converts a pagination object to its published names, which are the same
// in every variant: the published interface, Pagination object.
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
		known := paginationNames.known(a.text(name))
		switch written := string(a.text(name)); {
		case known == "" || written == known:
		case written == "has_more":
			a.replace(name, known)
		default:
			return 0, errSpelled
		}
		if known == "hasMore" {
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

// closeEnvelope completes the output at the bracket that closes the envelope.
func (a *answer) closeEnvelope(bracket token) {
	a.upTo(bracket.start)
	if a.opt.Variant != VariantC {
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

// complete adds the members of an envelope that the issuer did not send.
func (a *answer) complete() {
	if !a.requestID {
		a.out = append(a.out, `,"request_id":`...)
		// The error only reports that invalid UTF-8 in the id was replaced.
		a.out, _ = jsontext.AppendQuote(a.out, a.opt.RequestID)
	}
	if !a.timestamp {
		a.out = append(a.out, `,"timestamp":"`...)
		a.out = a.opt.Now.UTC().AppendFormat(a.out, time.RFC3339)
		a.out = append(a.out, '"')
	}
}
