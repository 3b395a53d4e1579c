package caddymodule

import (
	"bytes"
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

// headerForwarded is on each 503 of the gateway's own: `no` says that the issuer
// has seen nothing of the request, which may be sent again.
const headerForwarded = "X-Gateway-Forwarded"

// gatewayNames are headers by which the client proves itself or which the
// gateway writes, and connectionNames those of one connection and of the framing
// of one message. No configuration lets either pass. Names are folded.
var (
	gatewayNames    = setOf(`xapikey xtimestamp xnonce xbodyhash xsignature xrequestid`)
	connectionNames = setOf(`connection keepalive proxyconnection proxyauthorization proxyauthenticate upgrade
		http2settings te trailer trailers transferencoding contentlength host expect earlydata`)
)

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

// clean removes from a client's request what the issuer must not see, in every
// spelling that a backend may fold into the same name. What Connection names
// goes with it (RFC 9110, section 7.6.1); the gateway's own headers are written
// later, so that no such list can remove them.
//
// What is dropped although a card_forward behind has it in its options is
// returned, for that handler alone.
func (rule *HeaderRule) clean(h http.Header) (aside http.Header) {
	for _, names := range h["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name, values := range h {
		if rule.passes(name) {
			continue
		}
		if rule.behind[name] {
			if aside == nil {
				aside = make(http.Header)
			}
			aside[name] = values
		}
		delete(h, name)
	}
	return aside
}

// passes reports whether a header reaches the issuer as the client sent it.
func (rule *HeaderRule) passes(name string) bool {
	switch {
	case rule.named[name]:
		return true
	case len(rule.OnlyHeaders) > 0:
		return describesBody(name) || name == headerShape // which card_translate takes
	}
	if passes, common := commonHeaders[name]; common {
		return passes
	}
	folded, ok := foldName(name)
	return ok && !folded.isOurs() && !soleNames[string(folded.bytes())] && !folded.lies()
}

// describesBody reports whether the body cannot be read without the header.
func describesBody(name string) bool { return name == "Content-Type" || name == "Content-Encoding" }

// isOurs reports whether a header belongs to the gateway or to the connection.
func (f *foldedName) isOurs() bool {
	return gatewayNames[string(f.bytes())] || connectionNames[string(f.bytes())] || f.isIdentity()
}

// isIdentity reports whether the header is one by which the upstream knows the
// caller: X-Gateway and whatever follows it as another word.
func (f *foldedName) isIdentity() bool {
	const prefix = "xgateway"
	return bytes.HasPrefix(f.bytes(), []byte(prefix)) && (f.length == len(prefix) || f.begins>>len(prefix)&1 == 1)
}

// dropIdentity removes what a client claims to be.
func dropIdentity(h http.Header) {
	for name := range h {
		if folded, _ := foldName(name); folded.isIdentity() {
			delete(h, name)
		}
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
