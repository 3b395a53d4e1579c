package caddymodule

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// responseWriter puts the gateway's own headers on an answer, at the moment
// when it is sent, whoever wrote it.
type responseWriter struct {
	caddyhttp.ResponseWriterWrapper
	info    *requestInfo
	limits  []rateHeader
	written bool
}

type rateHeader struct{ name, value string }

func newResponseWriter(w http.ResponseWriter, info *requestInfo) *responseWriter {
	return &responseWriter{
		ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w},
		info:                  info,
	}
}

// WriteHeader sends the head of the answer.
func (w *responseWriter) WriteHeader(status int) {
	if status >= 200 && !w.written {
		w.written = true
		w.finish(w.Header())
	}
	w.ResponseWriterWrapper.WriteHeader(status)
}

// Write sends a part of the body.
func (w *responseWriter) Write(p []byte) (int, error) {
	if !w.written {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriterWrapper.Write(p)
}

func (w *responseWriter) finish(h http.Header) {
	for name := range h {
		if isLimitHeader(name) {
			delete(h, name)
		}
	}
	h.Set(headerRequestID, w.info.RequestID)
	for _, limit := range w.limits {
		h[limit.name] = []string{limit.value}
	}
	switch {
	case w.info.refusal != nil: // it brought its own
	case w.info.Operation != nil && w.info.Operation.Name == auth.SensitiveOperation:
		h.Set("Cache-Control", "private, no-store")
		h.Del("Etag")
		h.Del("Last-Modified")
		h.Del("Expires")
	case len(h["Cache-Control"]) == 0:
		h.Set("Cache-Control", "private, no-store")
	}
}

// isLimitHeader reports whether an upstream's header would speak of limits in
// the place of the gateway's own.
func isLimitHeader(name string) bool {
	const prefix = "x-ratelimit-"
	if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
		return true
	}
	return strings.EqualFold(name, "ratelimit") || strings.EqualFold(name, "ratelimit-policy")
}

// setLimits notes the headers of the bucket that binds the request most, and
// with ietf those of all its buckets.
func (w *responseWriter) setLimits(charges []ratelimit.Charge, states []ratelimit.State, ietf bool) {
	shown := ratelimit.Tightest(states)
	if shown < 0 {
		return
	}
	state := &states[shown]
	w.limits = append(w.limits,
		rateHeader{"X-Ratelimit-Limit", strconv.FormatInt(state.Limit, 10)},
		rateHeader{"X-Ratelimit-Remaining", strconv.FormatInt(state.Remaining, 10)},
		rateHeader{"X-Ratelimit-Reset", strconv.FormatInt(state.Reset, 10)})
	if ietf {
		w.limits = append(w.limits,
			rateHeader{"Ratelimit", string(ratelimit.AppendRateLimit(nil, states))},
			rateHeader{"Ratelimit-Policy", string(ratelimit.AppendRateLimitPolicy(nil, charges))})
	}
}
