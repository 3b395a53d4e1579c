package caddymodule

import (
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/forward"
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
func (o *outgoing) fill(r *http.Request, info *requestInfo, rule *HeaderRule) *auth.Refusal {
	o.Method, o.Target = r.Method, r.URL.RequestURI()
	switch body := r.Body.(type) {
	case nil:
	case *sliceBody:
		o.Body = body.bytes
	case *heldReader:
		if o.Body = body.body.onePiece(); o.Body == nil {
			o.Stream, o.Length = &lastReader{*body}, body.body.size
		}
	default:
		if r.ContentLength < 0 {
			return auth.Refuse(auth.InternalError, "a handler before card_forward has put a body of unknown length in the place of the verified one")
		}
		if r.ContentLength > 0 {
			o.Stream, o.Length = body, r.ContentLength
		}
	}
	rule.recall(r.Header, info.aside)
	for name, values := range r.Header {
		if forwardedNames[name] || !rule.sends(name) {
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
func (o *outgoing) assert(r *http.Request, info *requestInfo) *auth.Refusal {
	a := &info.asserting
	if a.signer == nil {
		return nil
	}
	start := time.Now()
	digest := a.claims.Digest
	switch r.Body.(type) {
	case *sliceBody, *heldReader:
	default:
		if o.length() > 0 {
			return auth.Refuse(auth.InternalError, "a handler before card_forward has put another body in the place of the verified one, which assert cannot vouch for")
		}
		digest = sha256.Sum256(nil)
	}
	o.add(headerAssertion, a.of(o.Method, o.Target, digest))
	info.overhead += time.Since(start)
	return nil
}

// length returns the number of bytes of the body.
func (o *outgoing) length() int64 { return int64(len(o.Body)) + o.Length }

// A lastReader reads a held body and releases its memory at the end, because the
// issuer may take long to answer.
type lastReader struct{ heldReader }

func (r *lastReader) Read(p []byte) (int, error) {
	n, err := r.heldReader.Read(p)
	if r.at == r.body.size {
		r.body.release()
	}
	return n, err
}

func (o *outgoing) add(name, value string) {
	o.Fields = append(o.Fields, forward.Field{Name: name, Value: value})
}

// forwardedNames are the headers that addForwarded and assert write.
var forwardedNames = map[string]bool{
	headerAssertion:   true,
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
	trusted := fromProxy(r)
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
