package translate

import (
	"strconv"
	"unicode/utf8"
)

// A checker compares a customer with the published constraints of a variant.
type checker struct {
	*walker
	variant   Variant
	operation Operation
	// individual and business are the customer's type. Both are false when it
	// is not known.
	individual, business bool
	problems             []Problem
}

// check collects the problems of the customer that the walker has read.
func (c *checker) check() {
	if s := &c.seen[typeField]; s.as != nil && s.value.kind == '"' {
		text := c.text(s.value)
		c.individual, c.business = isIndividual(text), isBusiness(text)
	}
	for i := range fields {
		s, f := &c.seen[i], &fields[i]
		switch {
		case s.as == nil:
			if c.requires(f) {
				c.add(f, f.requestName(c.variant), missing(f.needs[c.variant]))
			}
		case s.folded.read():
			c.report(f, s.folded, "must be spelled "+placeNames[f.in]+f.requestName(c.variant))
			if !s.again.read() {
				c.value(f, s)
			}
		case s.again.read():
			c.report(f, s.again, "is the same field as "+placeNames[f.in]+c.written(s.name)+", which is present too")
		default:
			if s.foreign {
				c.report(f, s.name, "is not a name of variant "+c.variant.String()+", the variant of the names before it")
			}
			c.value(f, s)
		}
	}
}

// written returns the name as the client wrote it.
func (c *checker) written(name token) string { return shortened(string(c.text(name))) }

// requires reports whether the field must be present.
func (c *checker) requires(f *field) bool {
	if c.operation != Create {
		return false
	}
	switch f.needs[c.variant] {
	case always:
		return true
	case individual, individualOrNull:
		return c.individual
	case business:
		return c.business
	default:
		return false
	}
}

// value reports a value that the field does not allow.
func (c *checker) value(f *field, s *seen) {
	need := f.needs[c.variant]
	if need == free {
		return
	}
	switch s.value.kind {
	case '"':
		text := c.text(s.value) // valid until the first report
		wrong := ""
		if f.check != nil {
			wrong = f.check(c.variant, text)
		}
		if f.max > 0 && utf8.RuneCount(text) > f.max {
			c.report(f, s.name, "must be at most "+strconv.Itoa(f.max)+" characters long")
		}
		if wrong != "" {
			c.report(f, s.name, wrong)
		}
	case 'n':
		switch {
		case need == always:
			c.report(f, s.name, "must not be null")
		case c.requires(f) && need != individualOrNull:
			c.report(f, s.name, missing(need))
		}
	default:
		c.report(f, s.name, "must be a string")
	}
}

// report adds a problem of the field under the name that the client wrote.
func (c *checker) report(f *field, name token, message string) {
	c.add(f, c.written(name), message)
}

func (c *checker) add(f *field, name, message string) {
	c.problems = append(c.problems, Problem{Field: placeNames[f.in] + name, Message: message})
}

// missing returns the message for a required field without a value.
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
