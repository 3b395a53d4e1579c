package translate

import "errors"

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
