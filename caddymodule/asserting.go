package caddymodule

import (
	"crypto/sha256"
	"net/http"
	"time"

	"github.com/card-gateway/card-gateway/assertion"
	"github.com/card-gateway/card-gateway/headers"
)

// asserting is what the assertion of one request needs, once the request is
// accepted. Without a signer there is none.
type asserting struct {
	signer *assertion.Signer
	claims assertion.Claims // Digest is that of the body as the handlers of the gateway have left it
}

// sign returns the assertion of the request with this method, target and body.
func (a *asserting) sign(method, target string, digest [sha256.Size]byte) string {
	a.claims.Method, a.claims.Target, a.claims.Digest = method, target, digest
	return a.signer.Sign(&a.claims, time.Now())
}

// put sets the assertion in the headers of a request that reverse_proxy forwards
// with the method, target and body that it has now.
func (a *asserting) put(r *http.Request) {
	r.Header[headers.Assertion] = []string{a.sign(r.Method, r.URL.RequestURI(), a.claims.Digest)}
}

// bodyChanged notes another body. An assertion that is in the headers is made
// anew.
func (a *asserting) bodyChanged(r *http.Request, body []byte) {
	if a.signer == nil {
		return
	}
	a.claims.Digest = sha256.Sum256(body)
	if _, is := r.Header[headers.Assertion]; is {
		a.put(r)
	}
}
