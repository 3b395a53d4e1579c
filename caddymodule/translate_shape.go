package caddymodule

import (
	"net/http"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/translate"
)

// headerShape asks for the answer in the shape of a customer variant.
const (
	headerShape = "X-Card-Variant"
	foldedShape = "xcardvariant"
)

// takeShape removes X-Card-Variant from the request, in every spelling that a
// backend may fold into it, and returns the variant that it asks for; None
// without the header. The refusal is for any value but A, B and C.
func takeShape(r *http.Request) (translate.Variant, *auth.Refusal) {
	shape, ok := translate.AskedVariant(r.Header[headerShape])
	for name := range r.Header {
		if folded, _ := foldName(name); string(folded.bytes()) == foldedShape {
			delete(r.Header, name)
		}
	}
	if !ok {
		const message = headerShape + " must be sent once, and be A, B or C"
		return translate.None, &auth.Refusal{Reason: auth.MalformedRequest, Message: message, Log: message}
	}
	return shape, nil
}
