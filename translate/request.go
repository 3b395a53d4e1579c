package translate

import (
	"errors"
	"io"
	"strconv"
	"unicode/utf8"
)

// Request translates a request body to the upstream's form and checks it.
//
// It returns the translated text, which is body itself when nothing had to
// change, and the variant that asked: told by the names in the body, else
// opt.KeyVariant, else the upstream's form for [Create] and [None] for
// [Update]. With problems there is no text; they come all at once, in the
// order of the table of fields.
func Request(body []byte, opt RequestOptions) (out []byte, asked Variant, problems []Problem) {
	w := walkers.Get().(*walker)
	defer walkers.Put(w)
	w.open(body, MaxRequestTokens)
	defer w.close()
	w.to, w.bareRecord = opt.Upstream, false
	w.start()
	if err := w.request(); err != nil {
		return nil, None, []Problem{explain(err)}
	}
	told, asked := w.variant(opt)
	c := checker{walker: w, variant: told, create: opt.Operation == Create}
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

// variant decides between the variants that fit the names of the body: the
// one by whose rules it is checked, and the one that the answer is for.
func (w *walker) variant(opt RequestOptions) (told, asked Variant) {
	own := opt.Upstream.variant()
	switch {
	case !w.fits.has(A): // B, or C, or names that fit both alike
		if w.fits.has(B) {
			return B, B
		}
		return C, C
	case w.fits == 1<<A:
		return A, A
	case opt.KeyVariant != None && w.fits.has(opt.KeyVariant):
		return opt.KeyVariant, opt.KeyVariant
	case opt.Operation == Update:
		return own, opt.KeyVariant
	default:
		return own, own
	}
}

// A checker holds a customer against the published constraints of a variant.
type checker struct {
	*walker
	variant  Variant
	create   bool
	problems []Problem
}

func (c *checker) check() {
	var individualCustomer, businessCustomer bool
	if s := &c.seen[typeField]; s.as != nil && s.value.kind == '"' {
		text := c.text(s.value)
		individualCustomer, businessCustomer = isIndividual(text), isBusiness(text)
	}
	for i := range fields {
		s, f := &c.seen[i], &fields[i]
		need := f.need[c.variant]
		required := c.create && (need == always ||
			individualCustomer && (need == individual || need == individualOrNull) ||
			businessCustomer && need == business)
		switch {
		case s.as == nil:
			if required {
				c.report(f.requestName(c.variant), missing(need))
			}
		case s.again != nil:
			c.report(placeNames[f.in]+s.again.text, "is the same field as "+placeNames[f.in]+s.as.text+", which is there too")
		default:
			c.spelled(f, s)
			if need != free {
				c.value(f, s, required)
			}
		}
	}
}

// spelled reports a name that another variant would write.
func (c *checker) spelled(f *field, s *seen) {
	if s.foreign {
		c.report(placeNames[f.in]+s.as.text, "is not a name of variant "+c.variant.String()+", in which the body begins")
	}
}

// value reports a value that is not what the field takes.
func (c *checker) value(f *field, s *seen, required bool) {
	name := placeNames[f.in] + s.as.text
	need := f.need[c.variant]
	switch s.value.kind {
	case '"':
		text := c.text(s.value)
		if f.max > 0 && utf8.RuneCount(text) > f.max {
			c.report(name, "must be at most "+strconv.Itoa(f.max)+" characters long")
		}
		if f.check != nil {
			if wrong := f.check(c.variant, text); wrong != "" {
				c.report(name, wrong)
			}
		}
	case 'n':
		switch {
		case need == always:
			c.report(name, "must not be null")
		case required && need != individualOrNull:
			c.report(name, missing(need))
		}
	default:
		c.report(name, "must be a string")
	}
}

func (c *checker) report(name, message string) {
	c.problems = append(c.problems, Problem{Field: name, Message: message})
}

func missing(need need) string {
	switch need {
	case individual, individualOrNull:
		return "is required for individual customers"
	case business:
		return "is required for business customers"
	default:
		return "is required"
	}
}
