package request

import (
	"crypto/sha256"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/held"
)

// A signedAnswer holds the answer to an accepted request until it is complete, so
// that it can be signed with the secret that verified the request. An answer that
// cannot be held is streamed unsigned.
type signedAnswer struct {
	secret *auth.Secret
	nonce  string // of the request
	method string
	memory held.Reservation

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
	size, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	body := held.NewBody(a.memory)
	switch {
	case a.neither:
	case err == nil && size > MaxAnswer, strings.EqualFold(strings.TrimSpace(media), "text/event-stream"):
		meter.AnswersUnsigned.Inc()
		return false
	case err == nil && size <= held.Quick && body.Begin(size) != nil:
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
	if KeepAnswer(a.body, p) != nil {
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
	if body.Size() == 0 {
		return nil
	}
	if piece := body.OnePiece(); piece != nil {
		_, err := w.Write(piece)
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

// MaxAnswer bounds the bytes of an answer that is held to be translated or signed.
const MaxAnswer = 8 << 20

// ErrAnswerTooLarge is why an answer cannot be held.
var ErrAnswerTooLarge = cardlog.PlainError("the answer is larger than the " + strconv.Itoa(MaxAnswer) + " bytes that are translated")

// KeepAnswer adds a part of an answer to what is held of it.
func KeepAnswer(body *held.Body, p []byte) error {
	if body.Size()+int64(len(p)) > MaxAnswer {
		return ErrAnswerTooLarge
	}
	return body.Write(p)
}
