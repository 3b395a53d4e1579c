package caddymodule

import (
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/headers"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// responseWriter is between the client and the handler that answers. It sets the
// gateway's own headers at the moment when the answer is sent. It drops trailers
// and informational answers (1xx), which could contradict the gateway's headers.
type responseWriter struct {
	caddyhttp.ResponseWriterWrapper
	info     *requestInfo
	limits   []rateHeader
	own      headers.Values
	signs    signedAnswer // without a secret the answer is not signed
	status   int          // of the answer; 0 until its head is sent, or the answer is held
	late     http.Header  // headers set after the head, such as trailers; never sent
	replaced bool         // the answer is a refusal; what the handler writes is dropped
	failed   bool         // writing to the client has failed
}

type rateHeader struct{ name, value string }

func newResponseWriter(w http.ResponseWriter, info *requestInfo) *responseWriter {
	return &responseWriter{
		ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w},
		info:                  info,
	}
}

// signWith makes the answer a signed one, to a request of the method and with the nonce
// that the secret has verified.
func (w *responseWriter) signWith(secret *auth.Secret, nonce, method string) {
	w.signs = signedAnswer{secret: secret, nonce: nonce, method: method, memory: w.info.reserve(w.info.answerMemory)}
}

// announce notes the whole body of an answer, which a handler is about to write at
// once: it need not be held again to be signed.
func (w *responseWriter) announce(body []byte) {
	if len(body) <= maxAnswer {
		w.signs.whole = body
	}
}

// Header returns the headers of the answer until its head is sent; after that, a
// map that is never sent.
func (w *responseWriter) Header() http.Header {
	if w.status == 0 {
		return w.ResponseWriterWrapper.Header()
	}
	if w.late == nil {
		w.late = make(http.Header)
	}
	return w.late
}

// WriteHeader sends the head of the answer. It drops informational answers. A
// status that is not valid becomes a refusal: net/http panics below 100, no
// status above 599 is defined, and 101 would change the protocol.
func (w *responseWriter) WriteHeader(status int) {
	switch {
	case w.status != 0:
	case status < 100 || status > 599 || status == http.StatusSwitchingProtocols:
		w.replace(auth.Refuse(auth.UpstreamError, "the answer has the status "+strconv.Itoa(status)))
	case status >= 200:
		h := w.Header()
		w.status = status
		if w.info.refusal == nil {
			w.info.noteStatus(status)
		}
		if !w.signs.holds(h, status) {
			w.sendHead()
		}
	}
}

// sendHead sends the head of the answer.
func (w *responseWriter) sendHead() {
	h := w.ResponseWriterWrapper.Header()
	w.finish(h)
	if w.signs.secret != nil && w.signs.whole != nil {
		w.signs.sign(h, w.info.RequestID, time.Now())
	}
	w.ResponseWriterWrapper.WriteHeader(w.status)
}

// complete signs and sends the answer if it was held. The handlers have ended.
func (w *responseWriter) complete() {
	if !w.signs.isHeld() {
		return
	}
	w.finish(w.ResponseWriterWrapper.Header())
	w.signs.sign(w.ResponseWriterWrapper.Header(), w.info.RequestID, time.Now())
	w.ResponseWriterWrapper.WriteHeader(w.status)
	w.failed = w.signs.pour(w.ResponseWriterWrapper) != nil || w.failed
}

// stream sends what was held of an answer that cannot be held whole.
func (w *responseWriter) stream() {
	w.sendHead()
	w.failed = w.signs.pour(w.ResponseWriterWrapper) != nil || w.failed
}

// takeBack forgets an answer of which nothing was sent. It reports whether there
// was one, so that another can be given.
func (w *responseWriter) takeBack() bool {
	if !w.signs.isHeld() {
		return false
	}
	w.signs.drop()
	w.status, w.replaced = 0, false
	w.forgetHead()
	return true
}

// forgetHead removes the headers that a handler has set.
func (w *responseWriter) forgetHead() {
	maps.DeleteFunc(w.Header(), func(name string, _ []string) bool { return !headers.StaysInHead(name) })
}

// replace sends a refusal in place of the answer that a handler has begun.
func (w *responseWriter) replace(refusal *auth.Refusal) {
	w.forgetHead()
	w.info.writeRefusal(w, refusal)
	w.info.logRefusal(refusal)
	w.replaced = true
}

// begin sends the head if the handler has not done so before the body.
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
	if w.signs.isHeld() {
		if w.signs.write(p) {
			return len(p), nil
		}
		w.stream()
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
	if w.signs.isHeld() {
		return io.Copy(struct{ io.Writer }{w}, r)
	}
	return w.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError sends what was written so far, the head at least, unless the answer is
// held.
func (w *responseWriter) FlushError() error {
	w.begin()
	if w.signs.isHeld() {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *responseWriter) finish(h http.Header) {
	headers.DropOwn(h)
	if _, typed := h[headers.ContentType]; !typed {
		h[headers.ContentType] = nil // else net/http guesses it from the bytes, as text/html too
	}
	w.own.Set(h, headers.RequestID, w.info.RequestID)
	if w.info.notForwarded(w.status) {
		w.own.Set(h, headers.Forwarded, "no")
	}
	if w.info.closes {
		w.own.Set(h, "Connection", "close")
	}
	for _, limit := range w.limits {
		w.own.Set(h, limit.name, limit.value)
	}
	switch {
	case w.info.refusal != nil: // it has set its own Cache-Control
	case w.info.Operation != nil && w.info.Operation.Name == auth.SensitiveOperation:
		maps.DeleteFunc(h, func(name string, _ []string) bool { return headers.SpeaksOfCaching(name) })
		w.own.Set(h, "Cache-Control", "private, no-store")
	case len(h["Cache-Control"]) == 0 || h["Cache-Control"][0] == "":
		w.own.Set(h, "Cache-Control", "private, no-store")
	}
}

// setLimits prepares the headers of the request's tightest bucket and, with the
// option ietf_headers, those of all its buckets.
func (w *responseWriter) setLimits(limiter *RateLimitOptions, charges []ratelimit.Charge, states []ratelimit.State) {
	shown := ratelimit.Tightest(states)
	if shown < 0 {
		return
	}
	state := &states[shown]
	var room [3 * len("-9223372036854775808")]byte
	text := strconv.AppendInt(room[:0], state.Limit, 10)
	limit := len(text)
	text = strconv.AppendInt(text, state.Remaining, 10)
	remaining := len(text)
	all := string(strconv.AppendInt(text, state.Reset, 10)) // in one piece of memory
	w.limits = append(w.limits,
		rateHeader{"X-Ratelimit-Limit", all[:limit]},
		rateHeader{"X-Ratelimit-Remaining", all[limit:remaining]},
		rateHeader{"X-Ratelimit-Reset", all[remaining:]})
	if limiter.IETFHeaders {
		w.limits = append(w.limits,
			rateHeader{"Ratelimit", string(ratelimit.AppendRateLimit(nil, states))},
			rateHeader{"Ratelimit-Policy", string(ratelimit.AppendRateLimitPolicy(nil, charges))})
	}
}
