// Package translate speaks the three published dialects of a customer: it
// turns what a client of any variant wrote into the one form that the issuer
// reads, checks it, and turns the issuer's answer into the client's own form.
//
// It edits the text of the document and never rebuilds it: the names of known
// fields and the dates among their values change, every other byte stays.
// Package translate is pure: it knows nothing of HTTP, reads no clock and
// keeps nothing between calls.
package translate

import "time"

// A Variant is one of the published forms of a customer. The zero value
// stands for "not told".
type Variant uint8

// The variants of the published interface, Resources and their fields.
const (
	None Variant = iota
	A            // snake_case, dates as date-times, answers in an envelope
	B            // camelCase, dates as YYYY-MM-DD, answers in an envelope
	C            // as B, with countryIsoTwo in requests and bare answers
)

var variantNames = [...]string{None: "none", A: "A", B: "B", C: "C"}

// String returns "A", "B", "C" or "none".
func (v Variant) String() string {
	if int(v) >= len(variantNames) {
		v = None
	}
	return variantNames[v]
}

// ParseVariant reads "A", "B" or "C"; anything else, also empty, is [None].
func ParseVariant(s string) Variant {
	switch s {
	case "A":
		return A
	case "B":
		return B
	case "C":
		return C
	}
	return None
}

// form returns how the variant spells the names of its fields.
func (v Variant) form() Form {
	if v == A {
		return SnakeCase
	}
	return CamelCase
}

// A Form is how one side spells names, and with them dates: snake_case goes
// with date-times, camelCase with YYYY-MM-DD.
type Form uint8

// The forms that an issuer may speak.
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

// ParseForm reads "snake_case" or "camelCase".
func ParseForm(s string) (Form, bool) {
	switch s {
	case "snake_case":
		return SnakeCase, true
	case "camelCase":
		return CamelCase, true
	}
	return SnakeCase, false
}

// variant returns the variant that is written in the form.
func (f Form) variant() Variant {
	if f == CamelCase {
		return B
	}
	return A
}

// An Operation says what is asked of a customer.
type Operation uint8

// The operations that carry a customer in their body.
const (
	Create Operation = iota // the whole customer: required fields are checked
	Update                  // some fields: only what is there is checked
)

// A Problem is one broken rule of a request body.
type Problem struct {
	// Field is the field's name as the client wrote it, or would have to write
	// it; a field of an inner object is "address.postalCode". It is empty for
	// a problem of the document as a whole.
	Field string
	// Message is text for the client. It never quotes a value.
	Message string
}

// RequestOptions say how a request body is to be read and written.
type RequestOptions struct {
	Operation Operation
	// Upstream is the form to translate to.
	Upstream Form
	// KeyVariant decides for a body whose names are common to several
	// variants. [None] leaves it to the upstream's form.
	KeyVariant Variant
}

// ResponseOptions say how an answer is to be written.
type ResponseOptions struct {
	// Variant is the form to translate to. [None] changes nothing.
	Variant Variant
	// List says that the answer must hold a list of customers.
	List bool
	// RequestID and Now complete an envelope that the issuer did not send.
	RequestID string
	Now       time.Time
}

// The bounds of a document. Sizes in bytes are bounded by the caller.
const (
	// MaxDepth is how deeply objects and arrays may be nested.
	MaxDepth = 32
	// MaxRequestTokens bounds names, values and brackets of a request body.
	MaxRequestTokens = 10_000
	// MaxResponseTokens bounds those of an answer.
	MaxResponseTokens = 1_000_000
)
