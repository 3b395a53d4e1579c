package translate

import (
	"errors"
	"sync"
)

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
