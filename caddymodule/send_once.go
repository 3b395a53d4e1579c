package caddymodule

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// net/http may send a request twice where a kept connection breaks. What follows
// keeps it from that; a card_forward, which sends once by the way it is built,
// needs none of it.

// errSentOnce is why a second attempt was not made.
var errSentOnce error = cardlog.PlainError("the upstream closed the connection before it answered; the request was sent once and is not sent again")

// sendOnce returns a request that net/http does not send to the upstream a
// second time once bytes of it were sent. Requests with a body, and all POST
// and PATCH, are safe by the way their body is set; what net/http would replay
// on its own are a GET and HEAD on a kept connection that breaks. The cause of
// the request's context is then errSentOnce.
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
// these are the same headers, but net/http, which looks them up under their
// canonical names, no longer takes them as leave to send a POST twice.
func hideIdempotencyKeys(h http.Header) {
	for canonical, lower := range map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"} {
		if values, ok := h[canonical]; ok {
			delete(h, canonical)
			h[lower] = values
		}
	}
}
