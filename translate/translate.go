// Package translate converts customers between the three published variants
// and the form of the issuer. [Request] finds the variant of a client's body by
// its names, checks the body and converts it to the issuer's form. [Response]
// converts an issuer's answer to the variant of the client.
//
// The package edits the text of a document and does not rebuild it. Only the
// names of known fields and the dates of birth change; every other byte stays.
// The package is pure: no HTTP, no clock, no state between calls.
//
// Begin with [Request].
package translate

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A Variant is one of the published forms of a customer: the published
// interface, Resources and their fields. The zero value means "unknown".
type Variant uint8

// The variants of the published interface.
const (
	None     Variant = iota
	VariantA         // snake_case, dates as date-times, answers in an envelope
	VariantB         // camelCase, dates as YYYY-MM-DD, answers in an envelope
	VariantC         // as B, with countryIsoTwo in requests and bare answers
)

var variantNames = [...]string{None: "none", VariantA: "A", VariantB: "B", VariantC: "C"}

// String returns "A", "B", "C" or "none".
func (v Variant) String() string {
	if int(v) >= len(variantNames) {
		v = None
	}
	return variantNames[v]
}

// ParseVariant returns the variant named "A", "B" or "C", and [None] for every
// other text.
func ParseVariant(s string) Variant {
	return Variant(max(slices.Index(variantNames[:], s), int(None)))
}

// AskedVariant returns the variant that a client asks for in a header with
// these values. Without a value it is [None]. AskedVariant returns false for
// several values, and for a value other than "A", "B" and "C".
func AskedVariant(values []string) (Variant, bool) {
	switch len(values) {
	case 0:
		return None, true
	case 1:
		asked := ParseVariant(values[0])
		return asked, asked != None
	default:
		return None, false
	}
}

// form returns the form of the variant's names and dates.
func (v Variant) form() Form {
	if v == VariantA {
		return SnakeCase
	}
	return CamelCase
}

// A Form is the spelling of names and dates that an issuer uses. Snake case
// goes with ISO 8601 date-times, camel case with YYYY-MM-DD.
type Form uint8

// The forms of an issuer.
const (
	SnakeCase Form = iota
	CamelCase
)

var formNames = [...]string{SnakeCase: "snake_case", CamelCase: "camelCase"}

// String returns "snake_case" or "camelCase".
func (f Form) String() string {
	if int(f) >= len(formNames) {
		f = SnakeCase
	}
	return formNames[f]
}

// ParseForm returns the form named "snake_case" or "camelCase". It returns
// false for every other text.
func ParseForm(s string) (Form, bool) {
	i := slices.Index(formNames[:], s)
	return Form(max(i, int(SnakeCase))), i >= 0
}

// variant returns the variant whose names and dates have the form.
func (f Form) variant() Variant {
	if f == CamelCase {
		return VariantB
	}
	return VariantA
}

// An Operation is what a request does with a customer.
type Operation uint8

// The operations that carry a customer in their body.
const (
	Create Operation = iota // a whole customer: required fields must be present
	Update                  // some fields: only the fields present are checked
)

// A Problem is one broken rule of a request body.
type Problem struct {
	// Field is the field's name as the client wrote it. For a missing field it
	// is the name that the client must write. A field of an inner object is
	// "address.postalCode". Empty means the document as a whole.
	Field string
	// Message is the text for the client. It quotes no value of the body.
	Message string
}

// RequestOptions say how [Request] reads and writes a body.
type RequestOptions struct {
	Operation Operation
	// Upstream is the form of the issuer, which the body is converted to.
	Upstream Form
	// KeyVariant is the customer_variant of the client's key. It decides when
	// the names of the body fit several variants; see [Request]. If it is
	// [None], the upstream's form decides.
	KeyVariant Variant
}

// ResponseOptions say how [Response] writes an answer.
type ResponseOptions struct {
	// Variant is the variant of the client, which the answer is converted to.
	// [None] changes nothing.
	Variant Variant
	// List makes an answer that is not a list of customers an error.
	List bool
	// RequestID is the envelope's request_id when the issuer sent none.
	RequestID string
	// Now is the envelope's timestamp when the issuer sent none.
	Now time.Time
}

// The bounds of a document. The caller bounds its size in bytes.
const (
	// MaxDepth is the largest depth of nested objects and arrays.
	MaxDepth = 32
	// MaxRequestTokens is the largest number of names, values and brackets in
	// a request body.
	MaxRequestTokens = 10_000
	// MaxResponseTokens is the largest number of them in an answer.
	MaxResponseTokens = 1_000_000
)

// explain returns the problem that the client reads for an error of reading.
func explain(err error) Problem {
	var syntactic *jsontext.SyntacticError
	var nul nulError
	switch {
	case errors.As(err, &nul):
		return Problem{Field: dotted(nul.at), Message: "must not hold the character U+0000"}
	case !errors.As(err, &syntactic):
		return Problem{Message: "the body " + err.Error()}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return Problem{Field: dotted(syntactic.JSONPointer), Message: "appears more than once"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Problem{Message: "the body ends inside its JSON value"}
	}
	at := strconv.FormatInt(syntactic.ByteOffset, 10)
	return Problem{Message: "the body is not valid JSON in UTF-8 at byte " + at}
}

// dotted returns a JSON pointer as the field of a problem, such as
// "metadata.x.0.y".
func dotted(p jsontext.Pointer) string {
	var b strings.Builder
	for name := range p.Tokens() {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(name)
	}
	return shortened(b.String())
}

// maxShown is the largest part of a client's name, in bytes, that a problem
// shows.
const maxShown = 100

// shortened cuts a name to maxShown bytes and marks the cut.
func shortened(name string) string {
	if len(name) <= maxShown {
		return name
	}
	cut := maxShown
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "…"
}
