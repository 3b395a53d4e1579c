package caddymodule

import "net/http"

// Headers that the gateway sets for the upstream.
const (
	headerRequestID = "X-Request-Id"
	headerIDKey     = "X-Gateway-Key-Id"
	headerTenant    = "X-Gateway-Tenant"
	headerScopes    = "X-Gateway-Scopes"
	headerOperation = "X-Gateway-Operation"
)

// The headers that say what a body is.
const (
	headerType     = "Content-Type"
	headerEncoding = "Content-Encoding"
)

// describesBody reports whether the header is needed to read the body.
func describesBody(name string) bool { return name == headerType || name == headerEncoding }

// headerForwarded is `no` on a 503 of the gateway if the issuer has seen nothing
// of the request. The client may send the request again.
const headerForwarded = "X-Gateway-Forwarded"

// headerValues are values of headers in one piece of memory, where each would
// have its own.
type headerValues struct {
	values [8]string
	used   int
}

// set sets a header. The name is canonical.
func (v *headerValues) set(h http.Header, name, value string) {
	if v.used == len(v.values) {
		h[name] = []string{value}
		return
	}
	at := v.used
	v.used++
	v.values[at] = value
	h[name] = v.values[at : at+1 : at+1]
}

// commonHeaders are headers that are not judged by their words: true means that
// the header passes. Most are here because they are frequent; User-Agent is here
// because it contains a word that would drop it.
var commonHeaders = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Cache-Control": true, "Content-Encoding": true,
	"Content-Type": true, "Cookie": true, "Idempotency-Key": true, "If-Match": true, "If-None-Match": true, "Origin": true,
	"Traceparent": true, "Tracestate": true, "User-Agent": true, "X-Correlation-Id": true,

	"X-Api-Key": false, "X-Timestamp": false, "X-Nonce": false, "X-Body-Hash": false, "X-Signature": false,
	"Connection": false, "Content-Length": false, "X-Forwarded-For": false, "X-Forwarded-Proto": false, "X-Request-Id": false,
}
