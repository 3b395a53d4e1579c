package translate

// A seen is what a document says of one field.
type seen struct {
	as      *spelling // nil: nothing
	value   token     // the first token of the value
	again   *spelling // a second spelling of the same field
	foreign bool      // spelled as no variant does that fits the names before
}

// A walker reads customers and renames their fields to one form.
type walker struct {
	document
	to   Form
	seen [len(fields)]seen
	// fits is the set of variants that write all names as seen so far.
	fits variants
	// badDate says that a date has a form that cannot be translated.
	badDate bool
	// bareRecord says that the text may turn out to be an envelope.
	bareRecord bool
}

// start forgets the customer before.
func (w *walker) start() {
	clear(w.seen[:])
	w.fits = allVariants
	w.badDate = false
}

// object reads the members of an object at the place, whose bracket has been
// read, to its end.
func (w *walker) object(at place) error {
	for {
		name, err := w.next()
		if err != nil {
			return err
		}
		if name.kind == '}' {
			return nil
		}
		as := spellings[at][string(w.text(name))]
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

// holdsData reports whether the member is the data of an envelope. A customer
// has no field of that name.
func (w *walker) holdsData(name, value token) bool {
	return (value.opens() || value.kind == 'n') && string(w.text(name)) == "data"
}

// field notes and translates one known field and reads its value to the end.
func (w *walker) field(as *spelling, name, value token) error {
	w.note(as, value)
	f := &fields[as.field]
	if target := f.name(w.to); target != as.text {
		w.replace(name, target)
	}
	if f.date {
		w.date(value)
	}
	if f.opens != top && value.kind == '{' {
		return w.object(f.opens)
	}
	_, err := w.skip(value)
	return err
}

// note records that the field is there and which variants write it so.
func (w *walker) note(as *spelling, value token) {
	s := &w.seen[as.field]
	switch {
	case s.as != nil:
		s.again = as
		return
	case w.fits&as.of == 0:
		s.foreign = true
	default:
		w.fits &= as.of
	}
	s.as, s.value = as, value
}

// date rewrites a calendar day as the form writes it. A value that has the
// form already keeps its bytes, and so does null.
func (w *walker) date(value token) {
	if value.kind == 'n' {
		return
	}
	if value.kind != '"' {
		w.badDate = true
		return
	}
	text := w.text(value)
	switch {
	case validDate(text):
		if w.to == SnakeCase {
			w.replace(value, string(text)+midnight)
		}
	case validDateTime(text):
		if w.to == CamelCase {
			w.replace(value, string(text[:dateLength]))
		}
	default:
		w.badDate = true
	}
}
