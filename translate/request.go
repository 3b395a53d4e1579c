package translate

import (
	"errors"
	"io"
)

// Request checks a request body and converts it to the upstream's form.
//
// It returns the converted text, which is body itself when nothing changed,
// and the variant that the answer is for. The names in the body decide the
// variant. Names that fit B and C alike are B, and for [Update] C where
// opt.KeyVariant is C. Where names of A fit too, opt.KeyVariant decides, else
// the upstream's form for [Create] and [None] for [Update].
//
// A body that breaks a rule has problems and no text. The problems are all
// that were found, in the order of the table of fields.
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

// variant chooses among the variants that fit the names of the body. It
// returns the variant whose rules the body must keep, and the variant that the
// answer is for.
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
