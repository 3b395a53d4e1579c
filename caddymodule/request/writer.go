package request

import (
	"crypto/sha256"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/headers"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// Writer is between the client and the handler that answers. It sets the
// gateway's own headers at the moment when the answer is sent. It drops trailers
// and informational answers (1xx), which could contradict the gateway's headers.
type Writer struct {
	caddyhttp.ResponseWriterWrapper
	Limits   *RateLimitOptions  // how limits apply; nil: not at all
	Charges  []ratelimit.Charge // of the buckets that the request was charged to
	States   []ratelimit.State  // of these
	info     *Info
	own      headers.Values
	signs    signedAnswer // without a secret the answer is not signed
	Status   int          // of the answer; 0 until its head is sent, or the answer is held
	late     http.Header  // headers set after the head, such as trailers; never sent
	replaced bool         // the answer is a refusal; what the handler writes is dropped
	Failed   bool         // writing to the client has failed
}

// NewWriter returns a writer of the answer to the request that the info is of.
func NewWriter(w http.ResponseWriter, info *Info) *Writer {
	return &Writer{
		ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w},
		info:                  info,
	}
}

// SignWith makes the answer a signed one, to a request of the method and with the nonce
// that the secret has verified.
func (w *Writer) SignWith(secret *auth.Secret, nonce, method string) {
	w.signs = signedAnswer{secret: secret, nonce: nonce, method: method, info: w.info}
	w.info.Copies = 1
}

// Announce notes the whole body of an answer, which a handler is about to write at
// once: it need not be held again to be signed.
func (w *Writer) Announce(body []byte) {
	if int64(len(body)) <= w.info.maxAnswer() {
		w.signs.whole = body
	}
}

// Header returns the headers of the answer until its head is sent; after that, a
// map that is never sent.
func (w *Writer) Header() http.Header {
	if w.Status == 0 {
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
func (w *Writer) WriteHeader(status int) {
	switch {
	case w.Status != 0:
	case status < 100 || status > 599 || status == http.StatusSwitchingProtocols:
		w.replace(auth.Refuse(auth.UpstreamError, "the answer has the status "+strconv.Itoa(status)))
	case status >= 200:
		h := w.Header()
		w.Status = status
		if w.info.Refusal == nil {
			w.info.NoteStatus(status)
		}
		if !w.signs.holds(h, status) {
			w.info.Answer.Release()
			w.sendHead()
		}
	}
}

// sendHead sends the head of the answer.
func (w *Writer) sendHead() {
	h := w.ResponseWriterWrapper.Header()
	w.finish(h)
	if w.signs.secret != nil && w.signs.whole != nil {
		w.signs.sign(h, w.info.RequestID, time.Now())
	}
	w.ResponseWriterWrapper.WriteHeader(w.Status)
}

// Complete signs and sends the answer if it was held. The handlers have ended.
func (w *Writer) Complete() {
	if !w.IsHeld() {
		return
	}
	w.finish(w.ResponseWriterWrapper.Header())
	w.signs.sign(w.ResponseWriterWrapper.Header(), w.info.RequestID, time.Now())
	w.ResponseWriterWrapper.WriteHeader(w.Status)
	w.Failed = w.signs.pour(w.ResponseWriterWrapper) != nil || w.Failed
}

// stream sends what was held of an answer that cannot be held whole.
func (w *Writer) stream() {
	w.sendHead()
	w.Failed = w.signs.pour(w.ResponseWriterWrapper) != nil || w.Failed
}

// TakeBack forgets an answer of which nothing was sent. It reports whether there
// was one, so that another can be given.
func (w *Writer) TakeBack() bool {
	if !w.IsHeld() {
		return false
	}
	w.Drop()
	w.Status, w.replaced = 0, false
	w.forgetHead()
	return true
}

// IsHeld reports whether the answer has begun and nothing of it was sent.
func (w *Writer) IsHeld() bool { return w.signs.isHeld() }

// Drop forgets what is held of the answer.
func (w *Writer) Drop() { w.signs.drop() }

// forgetHead removes the headers that a handler has set.
func (w *Writer) forgetHead() {
	maps.DeleteFunc(w.Header(), func(name string, _ []string) bool { return !headers.StaysInHead(name) })
}

// replace sends a refusal in place of the answer that a handler has begun.
func (w *Writer) replace(refusal *auth.Refusal) {
	w.forgetHead()
	w.info.WriteRefusal(w, refusal)
	w.info.LogRefusal(refusal)
	w.replaced = true
}

// begin sends the head if the handler has not done so before the body.
func (w *Writer) begin() {
	if w.Status == 0 {
		w.WriteHeader(http.StatusOK)
	}
}

// Write sends a part of the body.
func (w *Writer) Write(p []byte) (int, error) {
	w.begin()
	if w.replaced {
		return len(p), nil
	}
	if w.IsHeld() {
		if w.signs.write(p) {
			return len(p), nil
		}
		w.stream()
	}
	n, err := w.ResponseWriterWrapper.Write(p)
	w.Failed = w.Failed || err != nil
	return n, err
}

// ReadFrom sends a part of the body.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	if w.replaced {
		return io.Copy(io.Discard, r)
	}
	if w.IsHeld() {
		return io.Copy(struct{ io.Writer }{w}, r)
	}
	return w.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError sends what was written so far, the head at least, unless the answer is
// held.
func (w *Writer) FlushError() error {
	w.begin()
	if w.IsHeld() {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *Writer) finish(h http.Header) {
	headers.DropOwn(h)
	if _, typed := h[headers.ContentType]; !typed {
		h[headers.ContentType] = nil // else net/http guesses it from the bytes, as text/html too
	}
	w.own.Set(h, headers.RequestID, w.info.RequestID)
	if w.Status == http.StatusServiceUnavailable && w.info.Refusal != nil && !w.info.forwarded() {
		w.own.Set(h, headers.Forwarded, "no")
	}
	if w.info.Closes {
		w.own.Set(h, "Connection", "close")
	}
	w.setLimits(h)
	switch {
	case w.info.Refusal != nil: // it has set its own Cache-Control
	case w.info.Operation != nil && w.info.Operation.Name == auth.SensitiveOperation:
		maps.DeleteFunc(h, func(name string, _ []string) bool { return headers.SpeaksOfCaching(name) })
		w.own.Set(h, "Cache-Control", "private, no-store")
	case len(h["Cache-Control"]) == 0 || h["Cache-Control"][0] == "":
		w.own.Set(h, "Cache-Control", "private, no-store")
	}
}

// setLimits sets the headers of the request's tightest bucket and, with the option
// ietf_headers, those of all its buckets.
func (w *Writer) setLimits(h http.Header) {
	shown := ratelimit.Tightest(w.States)
	if shown < 0 {
		return
	}
	state := &w.States[shown]
	var room [3 * len("-9223372036854775808")]byte
	text := strconv.AppendInt(room[:0], state.Limit, 10)
	limit := len(text)
	text = strconv.AppendInt(text, state.Remaining, 10)
	remaining := len(text)
	all := string(strconv.AppendInt(text, state.Reset, 10)) // in one piece of memory
	w.own.Set(h, "X-Ratelimit-Limit", all[:limit])
	w.own.Set(h, "X-Ratelimit-Remaining", all[limit:remaining])
	w.own.Set(h, "X-Ratelimit-Reset", all[remaining:])
	if w.Limits.IETFHeaders {
		w.own.Set(h, "Ratelimit", string(ratelimit.AppendRateLimit(nil, w.States)))
		w.own.Set(h, "Ratelimit-Policy", string(ratelimit.AppendRateLimitPolicy(nil, w.Charges)))
	}
}

// A signedAnswer holds the answer to an accepted request until it is complete, so
// that it can be signed with the secret that verified the request. An answer that
// cannot be held is streamed unsigned.
type signedAnswer struct {
	secret *auth.Secret
	nonce  string // of the request
	method string
	info   *Info

	body    *held.Body // nil: not held, or no longer
	whole   []byte     // the body, where a handler has it in memory and writes it at once; else nil
	status  int
	neither bool // the answer has no body, whatever is written
}

// holds decides at the head of an answer whether it is held.
func (a *signedAnswer) holds(h http.Header, status int) bool {
	if a == nil || a.secret == nil {
		return false
	}
	a.status = status
	if a.whole != nil {
		return false
	}
	a.neither = a.method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	body := held.NewBody(a.info.Answer.Move())
	switch {
	case a.neither:
	case strings.EqualFold(strings.TrimSpace(media), "text/event-stream"), a.info.BeginAnswer(body, h) != nil:
		body.Release()
		meter.AnswersUnsigned.Inc()
		return false
	}
	a.body = body
	return true
}

// write holds a part of the body. It reports false if there is no room for it; then
// what was held must be streamed.
func (a *signedAnswer) write(p []byte) bool {
	if a.neither {
		return true
	}
	if a.info.KeepAnswer(a.body, p) != nil {
		meter.AnswersUnsigned.Inc()
		return false
	}
	return true
}

// sign sets the headers of the complete answer (the published interface does not
// know them; docs/signing.md describes them).
func (a *signedAnswer) sign(h http.Header, requestID string, now time.Time) {
	sum, size := sha256.Sum256(a.whole), int64(len(a.whole))
	if a.body != nil {
		sum, size = a.body.Hash(), a.body.Size()
	}
	timestamp, hash := strconv.FormatInt(now.Unix(), 10), auth.EncodeHash(sum)
	if !a.neither {
		h["Content-Length"] = []string{strconv.FormatInt(size, 10)}
	}
	text := auth.AppendAnswerToSign(nil, a.status, auth.SignedAnswer{RequestID: requestID, Timestamp: timestamp, Nonce: a.nonce, BodyHash: hash})
	h[auth.HeaderAnsweredAt] = []string{timestamp}
	h[auth.HeaderAnswerHash] = []string{hash}
	h[auth.HeaderAnswerSignature] = []string{a.secret.Sign(text)}
	meter.AnswersSigned.Inc()
}

// pour sends what is held, and holds nothing afterwards.
func (a *signedAnswer) pour(w io.Writer) error {
	body := a.body
	a.body = nil
	defer body.Release()
	body.Settle() // its client may read slowly
	if body.Size() == 0 {
		return nil
	}
	if piece := body.OnePiece(); piece != nil {
		_, err := w.Write(piece)
		if err != nil {
			body.Abandon()
		}
		return err
	}
	_, err := io.Copy(struct{ io.Writer }{w}, held.NewReader(body))
	return err
}

// drop forgets what is held.
func (a *signedAnswer) drop() {
	if a == nil || a.body == nil {
		return
	}
	a.body.Release()
	a.body = nil
}

// isHeld reports whether the answer has begun and nothing of it was sent.
func (a *signedAnswer) isHeld() bool { return a != nil && a.body != nil }

// MaxAnswer bounds the bytes of an answer that is held to be translated or signed, of
// operations without their own max_answer.
const MaxAnswer = 8 << 20

// aheadOfAnswer is the most bytes that are reserved for an answer before the issuer is
// asked: what one of 16 KiB takes, as received, in one piece and translated.
const aheadOfAnswer = 64 << 10

// BeginAnswer makes room for an answer that is held, if its head announces a small one, or
// if it will be copied, so that a small one fits into what was reserved with its copies.
func (i *Info) BeginAnswer(body *held.Body, h http.Header) error {
	size := int64(-1)
	if length, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil {
		size = length
	}
	switch {
	case size < 0 && i.Copies > 1:
		size = held.Quick
	case size > i.maxAnswer():
		return i.answerTooLarge()
	}
	if size >= 0 && size <= held.Quick {
		if refusal := body.Begin(size); refusal != nil {
			return refusal
		}
	}
	return nil
}

// KeepAnswer adds a part of an answer to what is held of it.
func (i *Info) KeepAnswer(body *held.Body, p []byte) error {
	if body.Size()+int64(len(p)) > i.maxAnswer() {
		return i.answerTooLarge()
	}
	return body.Write(p)
}

// answerTooLarge is why an answer cannot be held.
func (i *Info) answerTooLarge() error {
	return cardlog.PlainError("the answer is larger than the " + strconv.FormatInt(i.maxAnswer(), 10) + " bytes that are translated")
}
