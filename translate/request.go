package translate

import (
	"errors"
	"io"
)

// Request checks a request body and converts it to the upstream's form.
//
// It returns the converted text, which is body itself when nothing changed,
// and the variant in which the client expects the answer. The names in the body
// decide the variant:
//
//   - Names that fit only one variant mean that variant.
//   - Names that fit B and C mean B. For [Update] they mean C if
//     opt.KeyVariant is C.
//   - Names that fit all variants mean opt.KeyVariant. If that is [None], the
//     variant is that of the upstream's form for [Create], and [None] for
//     [Update].
//
// For a body that breaks a rule, Request returns all problems that it found, in
// the order of the table of fields, and no text.
func Request(body []byte, opt RequestOptions) (out []byte, asked Variant, problems []Problem) {
	w := walkers.Get().(*walker)
	defer walkers.Put(w)
	w.open(body, requestBounds)
	defer w.close()
	w.to, w.bareRecord = opt.Upstream, false
	w.start()
	if err := w.request(); err != nil {
		return nil, None, []Problem{explain(err)}
	}
	rules, asked := w.variant(opt)
	c := checker{walker: w, variant: rules, operation: opt.Operation}
	if c.check(); len(c.problems) > 0 {
		return nil, asked, c.problems
	}
	return w.edited(), asked, nil
}

var errNoObject = errors.New("is not a JSON object")

// request reads the whole body.
func (w *walker) request() error {
	first, err := w.next()
	switch {
	case errors.Is(err, io.EOF):
		return errEmpty
	case err != nil:
		return err
	}
	if first.kind == '{' {
		err = w.object(top)
	} else if _, err = w.skip(first); err == nil {
		err = errNoObject
	}
	if err != nil {
		return err
	}
	return w.finish()
}

// variant chooses one of the variants that fit the names of the body. It
// returns the variant whose rules the body must keep, and the variant in which
// the client expects the answer.
func (w *walker) variant(opt RequestOptions) (rules, asked Variant) {
	own := opt.Upstream.variant()
	switch {
	case w.fits == 1<<VariantC, w.fits == 1<<VariantB|1<<VariantC && opt.Operation == Update && opt.KeyVariant == VariantC:
		return VariantC, VariantC
	case !w.fits.has(VariantA): // B, or names that fit B and C
		return VariantB, VariantB
	case w.fits == 1<<VariantA:
		return VariantA, VariantA
	case opt.KeyVariant != None && w.fits.has(opt.KeyVariant):
		return opt.KeyVariant, opt.KeyVariant
	case opt.Operation == Update:
		return own, opt.KeyVariant
	default:
		return own, own
	}
}
