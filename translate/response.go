package translate

import (
	"errors"
	"fmt"
	"io"

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
