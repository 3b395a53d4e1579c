package caddymodule

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// net/http may send a request twice if a kept connection breaks. The functions
// of this file prevent that for reverse_proxy. card_forward does not need them,
// because it never sends a request twice.

// errSentOnce is the cause when a second attempt was prevented.
var errSentOnce error = cardlog.PlainError("the upstream closed the connection before it answered; the request was sent once and is not sent again")

// sendOnce returns a request that net/http does not send to the upstream a
// second time after its head was written. Requests with a body are safe because
// they have no GetBody. Of the others net/http repeats a GET or HEAD on a kept
// connection that breaks; here its context is canceled instead, with the cause
// errSentOnce. The caller must call the returned function at the end.
func sendOnce(r *http.Request) (*http.Request, context.CancelFunc) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.ContentLength != 0 {
		return r, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
		GetConn: func(string) {
			if sent.Load() {
				cancel(errSentOnce)
			}
		},
	})
	return r.WithContext(ctx), func() { cancel(nil) }
}

// hideIdempotencyKeys gives the headers lower-case names in the map. On the wire
// these are the same headers, but net/http looks for the canonical names and
// would send a POST with one of them twice.
func hideIdempotencyKeys(h http.Header) {
	for canonical, lower := range map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"} {
		if values, ok := h[canonical]; ok {
			delete(h, canonical)
			h[lower] = values
		}
	}
}
