package caddymodule

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// Headers that the gateway sets for the upstream.
const (
	headerRequestID = "X-Request-Id"
	headerIDKey     = "X-Gateway-Key-Id"
	headerTenant    = "X-Gateway-Tenant"
	headerScopes    = "X-Gateway-Scopes"
	headerOperation = "X-Gateway-Operation"
)

// unforwarded are request headers that never reach the upstream: credentials
// of this gateway and of others, what speaks of the connection, and what some
// frameworks let replace the method or the target that was signed. Names are
// folded, see foldName.
var unforwarded = map[string]bool{
	"x-api-key": true, "x-timestamp": true, "x-nonce": true, "x-body-hash": true, "x-signature": true,
	"authorization": true, "proxy-authorization": true,
	"connection": true, "keep-alive": true, "proxy-connection": true, "upgrade": true, "http2-settings": true,
	"te": true, "trailer": true, "transfer-encoding": true, "expect": true, "early-data": true,
	"x-http-method-override": true, "x-http-method": true, "x-method-override": true, "x-method": true,
	"x-original-url": true, "x-original-uri": true, "x-original-method": true,
	"x-rewrite-url": true, "x-rewrite-uri": true, "x-override-url": true,
	"x-request-id": true,
	// Addresses that anybody can write; the proxy adds X-Forwarded-For itself.
	"forwarded": true, "x-real-ip": true, "true-client-ip": true, "cf-connecting-ip": true, "x-client-ip": true,
	"x-cluster-client-ip": true,
}

// cleanHeaders removes from a client's request what the upstream must not
// see, in every spelling that a backend may fold into the same name.
func cleanHeaders(h http.Header) {
	for name := range h {
		if !mayMatter(name) {
			continue
		}
		folded := foldName(name)
		if unforwarded[folded] || isIdentity(folded) {
			delete(h, name)
		}
	}
	hideIdempotencyKey(h, "Idempotency-Key", "idempotency-key")
	hideIdempotencyKey(h, "X-Idempotency-Key", "x-idempotency-key")
}

// dropIdentity removes what a client claims to be.
func dropIdentity(h http.Header) {
	for name := range h {
		if mayMatter(name) && isIdentity(foldName(name)) {
			delete(h, name)
		}
	}
}

// isIdentity reports whether a folded name is that of a header by which the
// upstream knows the caller.
func isIdentity(folded string) bool { return strings.HasPrefix(folded, "x-gateway-") }

// mayMatter is a quick look at the first letter: the names of the headers
// that are removed begin with one of few.
func mayMatter(name string) bool {
	if name == "" {
		return false
	}
	switch name[0] | 0x20 {
	case 'a', 'c', 'e', 'f', 'h', 'k', 'p', 't', 'u', 'x':
		return true
	default:
		return false
	}
}

// foldName lowers a header's name and writes every separator as "-", as
// backends do that turn headers into variables.
func foldName(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			return c
		default:
			return '-'
		}
	}, name)
}

// hideIdempotencyKey gives the header a lower-case name in the map. On the
// wire that is the same header, but net/http, which looks it up under its
// canonical name, no longer takes it as leave to send a POST twice.
func hideIdempotencyKey(h http.Header, canonical, lower string) {
	if values, ok := h[canonical]; ok {
		delete(h, canonical)
		h[lower] = values
	}
}

// requestID returns the client's own request id if it has the form that is
// kept, else a new one.
func requestID(h http.Header) string {
	if values := h[headerRequestID]; len(values) == 1 && validRequestID(values[0]) {
		return values[0]
	}
	return newRequestID(rand.Text)
}

// requestIDChars are the characters of a request id that is kept.
const requestIDChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// validRequestID reports whether a client's request id is kept: 1 to 64 letters,
// digits, "-" or "_", in which no card number can be. It is written into logs and
// sent to the upstream.
func validRequestID(id string) bool {
	return 1 <= len(id) && len(id) <= 64 && strings.Trim(id, requestIDChars) == "" && !cardlog.HidesCardNumber(id)
}

// newRequestID returns a request id of our own. The random texts are letters and
// the digits 2 to 7; one with 12 digits or more is not used, so that none looks
// like a card number.
func newRequestID(random func() string) string {
	for {
		id, digits := random(), 0
		for i := range len(id) {
			if id[i] <= '9' {
				digits++
			}
		}
		if digits < 12 {
			return id
		}
	}
}

// setIdentity tells the upstream who sent the request.
func setIdentity(h http.Header, info *requestInfo) {
	h.Set(headerIDKey, info.Key.ID)
	h.Set(headerTenant, info.Key.Tenant)
	h.Set(headerScopes, info.Key.Scopes.String())
	h.Set(headerOperation, info.Operation.Name)
}
