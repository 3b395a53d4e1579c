package caddymodule

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// responseWriter stands between the client and whatever handler answers. It puts
// the gateway's own headers on the answer at the moment when it is sent. Beside
// the one answer nothing reaches the client: neither trailers nor informational
// answers (1xx), which could speak in the place of the gateway's headers.
type responseWriter struct {
	caddyhttp.ResponseWriterWrapper
	info     *requestInfo
	limits   []rateHeader
	status   int         // of the answer; 0 until its head is sent
	late     http.Header // what was set behind the head, as trailers are
	replaced bool        // the answer is a refusal; what the handler writes goes nowhere
	failed   bool        // the client no longer takes what is written
}

type rateHeader struct{ name, value string }

func newResponseWriter(w http.ResponseWriter, info *requestInfo) *responseWriter {
	return &responseWriter{
		ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w},
		info:                  info,
	}
}

// Header returns the headers of the answer until its head is sent; then, a map
// that nobody reads.
func (w *responseWriter) Header() http.Header {
	if w.status == 0 {
		return w.ResponseWriterWrapper.Header()
	}
	if w.late == nil {
		w.late = make(http.Header)
	}
	return w.late
}

// WriteHeader sends the head of the answer. Informational answers are left out.
// A status that is none becomes a refusal: net/http panics below 100, and
// nobody knows what to do with one above 599, or with another protocol.
func (w *responseWriter) WriteHeader(status int) {
	switch {
	case w.status != 0:
	case status < 100 || status > 599 || status == http.StatusSwitchingProtocols:
		w.replace(auth.Refuse(auth.UpstreamError, "the answer has the status "+strconv.Itoa(status)))
	case status >= 200:
		h := w.Header()
		w.status = status
		if w.info.refusal == nil {
			w.info.upstream.came(status)
		}
		w.finish(h)
		w.ResponseWriterWrapper.WriteHeader(status)
	}
}

// replace sends a refusal in the place of the answer that a handler has begun.
func (w *responseWriter) replace(refusal *auth.Refusal) {
	w.info.refusal = refusal
	w.info.logRefusal(refusal)
	h := w.Header()
	for name := range h {
		switch name {
		case "Server", "Alt-Svc", "Strict-Transport-Security": // of Caddy, for the connection or the host
		default:
			delete(h, name)
		}
	}
	writeRefusal(w, refusal)
	w.replaced = true
}

// begin sends the head where a handler has not done so before the body.
func (w *responseWriter) begin() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
}

// Write sends a part of the body.
func (w *responseWriter) Write(p []byte) (int, error) {
	w.begin()
	if w.replaced {
		return len(p), nil
	}
	n, err := w.ResponseWriterWrapper.Write(p)
	w.failed = w.failed || err != nil
	return n, err
}

// ReadFrom sends a part of the body.
func (w *responseWriter) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	if w.replaced {
		return io.Copy(io.Discard, r)
	}
	return w.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError sends what was written so far, the head at least.
func (w *responseWriter) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *responseWriter) finish(h http.Header) {
	dropOwn(h)
	h.Set(headerRequestID, w.info.RequestID)
	if w.info.notForwarded(w.status) {
		h[headerForwarded] = []string{"no"}
	}
	if w.info.closes {
		h.Set("Connection", "close")
	}
	for _, limit := range w.limits {
		h[limit.name] = []string{limit.value}
	}
	switch {
	case w.info.refusal != nil: // it brought its own
	case w.info.Operation != nil && w.info.Operation.Name == auth.SensitiveOperation:
		for name := range h {
			if speaksOfCaching(name) {
				delete(h, name)
			}
		}
		h.Set("Cache-Control", "private, no-store")
	case h.Get("Cache-Control") == "":
		h.Set("Cache-Control", "private, no-store")
	}
}

// speaksOfCaching reports whether a header could make some cache keep an
// answer in spite of its Cache-Control, as those do that address one kind of
// cache alone (RFC 9213), or tell later that it has not changed.
func speaksOfCaching(name string) bool {
	const control = "cache-control"
	if at := len(name) - len(control); at >= 0 && strings.EqualFold(name[at:], control) {
		return true
	}
	switch name {
	case "Etag", "Last-Modified", "Expires", "Age", "Pragma", "Surrogate-Control", "X-Accel-Expires":
		return true
	default:
		return false
	}
}

// dropOwn removes what only the gateway itself says on an answer, and the
// announcement of trailers, which do not come.
func dropOwn(h http.Header) {
	for name := range h {
		if isOwn(name) || name == "Trailer" || strings.HasPrefix(name, http.TrailerPrefix) {
			delete(h, name)
		}
	}
}

func isOwn(name string) bool {
	return strings.EqualFold(name, headerRequestID) || strings.EqualFold(name, headerForwarded) || isLimitHeader(name)
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
// those of all its buckets where the limiter sends the IETF's headers too.
func (w *responseWriter) setLimits(limiter *RateLimit, charges []ratelimit.Charge, states []ratelimit.State) {
	shown := ratelimit.Tightest(states)
	if shown < 0 {
		return
	}
	state := &states[shown]
	w.limits = append(w.limits,
		rateHeader{"X-Ratelimit-Limit", strconv.FormatInt(state.Limit, 10)},
		rateHeader{"X-Ratelimit-Remaining", strconv.FormatInt(state.Remaining, 10)},
		rateHeader{"X-Ratelimit-Reset", strconv.FormatInt(state.Reset, 10)})
	if limiter.IETFHeaders {
		w.limits = append(w.limits,
			rateHeader{"Ratelimit", string(ratelimit.AppendRateLimit(nil, states))},
			rateHeader{"Ratelimit-Policy", string(ratelimit.AppendRateLimitPolicy(nil, charges))})
	}
}
