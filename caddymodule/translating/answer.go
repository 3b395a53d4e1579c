package translating

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/translate"
)

// An answerWriter holds back an answer that must be translated. It passes every
// other answer on at once: errors and redirects, answers without a body, and
// answers that are not JSON.
type answerWriter struct {
	http.ResponseWriter
	r      *http.Request
	info   *request.Info
	opt    translate.ResponseOptions
	before http.Header // the headers as they were before the upstream's

	status int        // of the final answer; 0 until it is known
	body   *held.Body // nil: the answer is passed on
	failed error      // why the held answer cannot be sent; nil if it can
}

func newAnswerWriter(w http.ResponseWriter, r *http.Request, info *request.Info, opt translate.ResponseOptions) *answerWriter {
	return &answerWriter{ResponseWriter: w, r: r, info: info, opt: opt, before: maps.Clone(w.Header())}
}

// Unwrap is for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader decides whether the answer is held back.
func (w *answerWriter) WriteHeader(status int) {
	if status < 200 {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	if w.status != 0 {
		return
	}
	w.status = status
	w.info.NoteStatus(status)
	switch h := w.Header(); {
	case status == http.StatusNoContent, status == http.StatusResetContent, status == http.StatusNotModified:
		dropValidators(h)
	case status >= 300 || !jsonAnswer(h):
	case w.r.Method == http.MethodHead:
		dropValidators(h)
		h.Del("Content-Length")
	default:
		w.hold(status)
		return
	}
	meter.ObserveTranslation(w.opt.Variant.String(), "answer", "unchanged")
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerWriter) hold(status int) {
	w.body = held.NewBody(w.info.Answer.Move())
	if status == http.StatusPartialContent {
		w.failed = errAnswerPartial
		return
	}
	w.failed = w.info.BeginAnswer(w.body, w.Header())
}

// Write holds a part of the body, or passes it on.
func (w *answerWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.body == nil {
		return w.ResponseWriter.Write(p)
	}
	if w.failed == nil {
		w.failed = w.info.KeepAnswer(w.body, p)
	}
	if w.failed != nil {
		return 0, w.failed
	}
	return len(p), nil
}

// FlushError sends the part that has arrived, unless the answer is held back.
func (w *answerWriter) FlushError() error {
	if w.body != nil {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is FlushError for callers that know only http.Flusher.
func (w *answerWriter) Flush() { _ = w.FlushError() }

// serveTranslated calls the next handler and sends its answer in the variant of
// the client. An answer that is held back is sent whole or not at all.
func serveTranslated(w *answerWriter, r *http.Request, next caddyhttp.Handler) error {
	defer w.release()
	err := w.serve(next, r)
	if w.body == nil {
		return err
	}
	if w.failed != nil {
		return w.withhold(w.failed)
	}
	if err != nil {
		w.restoreHeaders()
		return err
	}
	start := time.Now()
	body, err := w.traced()
	w.info.Overhead += time.Since(start)
	if err != nil {
		return w.withhold(err)
	}
	return w.send(body)
}

// serve calls the next handler. Caddy's reverse proxy panics when the upstream
// breaks off half-way, to cut off the client too. While the answer is held back
// nothing was sent, so the client can still get a refusal.
func (w *answerWriter) serve(next caddyhttp.Handler, r *http.Request) error {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		if reason != http.ErrAbortHandler || w.body == nil {
			panic(reason)
		}
		if w.failed == nil {
			w.failed = errAnswerCutOff
		}
	}()
	return w.info.HandOn(next, w, r)
}

// traced is translated within a span.
func (w *answerWriter) traced() (body []byte, err error) {
	span, result := w.info.Spans.Start(meter.SpanTranslate), "ok"
	if body, err = w.translated(); err != nil {
		result = "failed"
		span.Outcome(auth.UpstreamError)
	}
	span.Translated(w.info.Operation.Name, w.opt.Variant.String(), "answer", result)
	return body, err
}

// translated returns the body in the variant of the client. An empty body stays
// empty, whatever its encoding is said to be.
func (w *answerWriter) translated() ([]byte, error) {
	if err := w.decode(); err != nil || w.body.Size() == 0 {
		return nil, err
	}
	if refusal := w.body.ReserveCopies(2); refusal != nil { // in one piece, and translated
		return nil, refusal
	}
	w.body.Settle()
	w.opt.Now = time.Now()
	out, err := translate.Response(w.body.Contiguous(), w.opt)
	if err != nil {
		return nil, cardlog.PlainError(err.Error())
	}
	return out, nil
}

// decode holds the body without its compression. What it holds of that is bounded
// and counted as if it had come so.
func (w *answerWriter) decode() error {
	from := w.body
	if from.Size() == 0 {
		return nil
	}
	reader, err := decoder(held.NewReader(from), w.Header())
	if err != nil || reader == nil {
		return err
	}
	defer from.Release()
	w.body = held.NewBody(w.info.Answer.Move())
	_, err = io.Copy(w, reader)
	return err
}

// send sends the head and the translated body.
func (w *answerWriter) send(body []byte) error {
	meter.ObserveTranslation(w.opt.Variant.String(), "answer", "ok")
	h := w.Header()
	dropTrailers(h)
	dropValidators(h)
	h.Del("Content-Encoding")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if out, ok := w.ResponseWriter.(*request.Writer); ok {
		out.Announce(body)
	}
	w.ResponseWriter.WriteHeader(w.status)
	if _, err := w.ResponseWriter.Write(body); err != nil {
		return caddyhttp.Error(499, fmt.Errorf("sending the translated answer: %w", err))
	}
	return nil
}

// withhold refuses the request without any part of the upstream's answer. The request
// was executed, so a client must not take it for one to send again.
func (w *answerWriter) withhold(err error) error {
	w.restoreHeaders()
	if w.r.Context().Err() != nil {
		return request.Refuse(w.ResponseWriter, w.r, &auth.Refusal{Reason: auth.ClientGone, Cause: err})
	}
	meter.ObserveTranslation(w.opt.Variant.String(), "answer", "failed")
	why := "the answer could not be translated and was withheld"
	if refusal := (*auth.Refusal)(nil); errors.As(err, &refusal) {
		why, err = why+": "+refusal.Log, nil
	}
	return request.Refuse(w.ResponseWriter, w.r, &auth.Refusal{Reason: auth.UpstreamError, Log: why, Cause: err})
}

func (w *answerWriter) restoreHeaders() {
	h := w.Header()
	clear(h)
	maps.Copy(h, w.before)
}

func (w *answerWriter) release() {
	w.body.Release()
	w.body = nil
}
