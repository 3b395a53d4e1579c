// Package translate converts customers between the three published variants
// and the form of the issuer. [Request] finds the variant of a client's body by
// its names, checks the body and converts it to the issuer's form. [Response]
// converts an issuer's answer to the variant of the client.
//
// The package edits the text of a document and does not rebuild it. Only the
// names of known fields and the dates of birth change; every other byte stays.
// The package is pure: no HTTP, no clock, no state between calls.
package translate

import "time"

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
	switch s {
	case "A":
		return VariantA
	case "B":
		return VariantB
	case "C":
		return VariantC
	}
	return None
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

// String returns "snake_case" or "camelCase".
func (f Form) String() string {
	if f == CamelCase {
		return "camelCase"
	}
	return "snake_case"
}

// ParseForm returns the form named "snake_case" or "camelCase". It returns
// false for every other text.
func ParseForm(s string) (Form, bool) {
	switch s {
	case "snake_case":
		return SnakeCase, true
	case "camelCase":
		return CamelCase, true
	}
	return SnakeCase, false
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
