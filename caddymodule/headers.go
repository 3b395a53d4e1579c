package caddymodule

// Headers that the gateway sets for the upstream.
const (
	headerRequestID = "X-Request-Id"
	headerIDKey     = "X-Gateway-Key-Id"
	headerTenant    = "X-Gateway-Tenant"
	headerScopes    = "X-Gateway-Scopes"
	headerOperation = "X-Gateway-Operation"
)

// headerForwarded is on each 503 of the gateway's own: `no` says that the issuer
// has seen nothing of the request, which may be sent again.
const headerForwarded = "X-Gateway-Forwarded"

// commonHeaders are judged beforehand: true: the header passes. Most are here
// because they are in every request; User-Agent holds a word that lies
// elsewhere.
var commonHeaders = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Cache-Control": true, "Content-Encoding": true,
	"Content-Type": true, "Cookie": true, "Idempotency-Key": true, "If-Match": true, "If-None-Match": true, "Origin": true,
	"Traceparent": true, "Tracestate": true, "User-Agent": true, "X-Correlation-Id": true,

	"X-Api-Key": false, "X-Timestamp": false, "X-Nonce": false, "X-Body-Hash": false, "X-Signature": false,
	"Connection": false, "Content-Length": false, "X-Forwarded-For": false, "X-Forwarded-Proto": false, "X-Request-Id": false,
}
