package request

import (
	"crypto/sha256"
	"net/http"
	"time"

	"github.com/card-gateway/card-gateway/assertion"
	"github.com/card-gateway/card-gateway/headers"
)

// Asserting is what the assertion of one request needs, once the request is
// accepted. Without a signer there is none.
type Asserting struct {
	Signer *assertion.Signer
	Claims assertion.Claims // Digest is that of the body as the handlers of the gateway have left it
}

// Sign returns the assertion of the request with this method, target and body.
func (a *Asserting) Sign(method, target string, digest [sha256.Size]byte) string {
	a.Claims.Method, a.Claims.Target, a.Claims.Digest = method, target, digest
	return a.Signer.Sign(&a.Claims, time.Now())
}

// Put sets the assertion in the headers of a request that reverse_proxy forwards
// with the method, target and body that it has now.
func (a *Asserting) Put(r *http.Request) {
	r.Header[headers.Assertion] = []string{a.Sign(r.Method, r.URL.RequestURI(), a.Claims.Digest)}
}

// BodyChanged notes another body. An assertion that is in the headers is made
// anew.
func (a *Asserting) BodyChanged(r *http.Request, body []byte) {
	if a.Signer == nil {
		return
	}
	a.Claims.Digest = sha256.Sum256(body)
	if _, is := r.Header[headers.Assertion]; is {
		a.Put(r)
	}
}
