package issuer

import (
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/forward"
	"github.com/card-gateway/card-gateway/headers"
	"github.com/card-gateway/card-gateway/held"
)

// via is the name of the server in Via, the same as of Caddy's reverse proxy (RFC
// 9110, section 7.6.3).
const via = "1.1 Caddy"

// An outgoing is a request to an issuer.
type outgoing struct{ forward.Request }

var outgoings = sync.Pool{New: func() any { return new(outgoing) }}

func newOutgoing() *outgoing { return outgoings.Get().(*outgoing) }

// free returns the outgoing to its pool, without any data of the request.
func (o *outgoing) free() {
	fields := o.Fields
	clear(fields)
	o.Request = forward.Request{Fields: fields[:0]}
	outgoings.Put(o)
}

// fill makes the outgoing request from the request that the handlers before have
// left. It refuses a body of unknown length, which no handler of the gateway
// produces.
func (o *outgoing) fill(r *http.Request, info *request.Info, rule *headers.Rule) *auth.Refusal {
	o.Caller, o.Method, o.Target = info.Caller(), r.Method, r.URL.RequestURI()
	switch body := r.Body.(type) {
	case nil:
	case *held.Slice:
		o.Body = body.Bytes()
	case *held.Reader:
		if o.Body = body.Body().OnePiece(); o.Body == nil {
			o.Stream, o.Length = body.Once(), body.Body().Size()
		}
	default:
		if r.ContentLength < 0 {
			return auth.Refuse(auth.InternalError, "a handler before card_forward has put a body of unknown length in the place of the verified one")
		}
		if r.ContentLength > 0 {
			o.Stream, o.Length = body, r.ContentLength
		}
	}
	rule.Recall(r.Header, info.Aside)
	for name, values := range r.Header {
		if forwardedNames[name] || !rule.Sends(name) {
			continue
		}
		for _, value := range values {
			o.add(name, value)
		}
	}
	o.addForwarded(r)
	return o.assert(r, info)
}

// assert adds the assertion of what is sent, if there is to be one. It refuses a
// body of which the gateway knows no hash.
func (o *outgoing) assert(r *http.Request, info *request.Info) *auth.Refusal {
	a := &info.Asserting
	if a.Signer == nil {
		return nil
	}
	start := time.Now()
	digest := a.Claims.Digest
	switch r.Body.(type) {
	case *held.Slice, *held.Reader:
	default:
		if o.length() > 0 {
			return auth.Refuse(auth.InternalError, "a handler before card_forward has put another body in the place of the verified one, which assert cannot vouch for")
		}
		digest = sha256.Sum256(nil)
	}
	o.add(headers.Assertion, a.Sign(o.Method, o.Target, digest))
	info.Overhead += time.Since(start)
	return nil
}

// length returns the number of bytes of the body.
func (o *outgoing) length() int64 { return int64(len(o.Body)) + o.Length }

func (o *outgoing) add(name, value string) {
	o.Fields = append(o.Fields, forward.Field{Name: name, Value: value})
}

// forwardedNames are the headers that addForwarded and assert write.
var forwardedNames = map[string]bool{
	headers.Assertion: true,
	"X-Forwarded-For": true, "X-Forwarded-Proto": true, "X-Forwarded-Host": true, "Via": true,
}

// addForwarded adds Via and X-Forwarded-For, -Proto and -Host as Caddy's reverse
// proxy does. Behind a trusted proxy it appends the address of the peer to
// X-Forwarded-For, and keeps the other two if card_auth has passed them.
func (o *outgoing) addForwarded(r *http.Request) {
	for _, value := range r.Header["Via"] {
		o.add("Via", value)
	}
	o.add("Via", via)
	if r.TLS != nil && !r.TLS.HandshakeComplete {
		o.add("Early-Data", "1") // RFC 8470, section 5.1
	}
	trusted := request.FromProxy(r)
	peer, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil && (r.RemoteAddr != "@" || !trusted) {
		return // the address of the peer is not known
	}
	peer, _, _ = strings.Cut(peer, "%")
	scheme, host := "https", r.Host
	if r.TLS == nil {
		scheme = "http"
	}
	if trusted {
		if before := strings.Join(r.Header["X-Forwarded-For"], ", "); before != "" {
			peer = strings.TrimSuffix(before+", "+peer, ", ")
		}
		scheme = lastOr(r.Header["X-Forwarded-Proto"], scheme)
		host = lastOr(r.Header["X-Forwarded-Host"], host)
	}
	if peer != "" {
		o.add("X-Forwarded-For", peer)
	}
	o.add("X-Forwarded-Proto", scheme)
	o.add("X-Forwarded-Host", host)
}

// lastOr returns the last of the values, or otherwise if there is none or it is
// empty.
func lastOr(values []string, otherwise string) string {
	if len(values) == 0 || values[len(values)-1] == "" {
		return otherwise
	}
	return values[len(values)-1]
}
