package caddymodule

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// The first bytes of a body must arrive within arrivalGrace, and the rest at
// leastRate, in bytes per second.
const (
	arrivalGrace = 5 * time.Second
	leastRate    = 4 << 10
)

// An arrival is the time in which one body must arrive.
type arrival struct {
	timeout time.Duration // for the whole body
	began   time.Time
	until   time.Time // the current read deadline
	w       http.ResponseWriter
}

// extend moves the deadline to until.
func (a *arrival) extend(until time.Time) { _ = http.NewResponseController(a.w).SetReadDeadline(until) }

// begin sets the first deadline.
func (a *arrival) begin(w http.ResponseWriter) {
	a.w, a.began = w, time.Now()
	a.until = a.began.Add(min(arrivalGrace, a.timeout))
	a.extend(a.until)
}

// end removes the deadline.
func (a *arrival) end() { a.extend(time.Time{}) }

// arrived extends the deadline by the time that n bytes may take at leastRate.
func (a *arrival) arrived(n int) {
	a.until = a.until.Add(time.Duration(n) * time.Second / leastRate)
	if last := a.began.Add(a.timeout); a.until.After(last) {
		a.until = last
	}
	a.extend(a.until)
}

// failed returns the refusal for a body that could not be read.
func (a *arrival) failed(r *http.Request, err error) *auth.Refusal {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &auth.Refusal{Reason: auth.BodyTimeout, Log: "a body must begin to arrive within " + arrivalGrace.String() +
			", go on at " + strconv.Itoa(leastRate) + " bytes a second and be complete within " + a.timeout.String()}
	case errors.As(err, &tooLarge): // from a handler before card_auth
		return bodyTooLarge(tooLarge.Limit)
	case errors.Is(err, io.ErrUnexpectedEOF): // its sender may still listen
		return bodyCutShort(err)
	case errors.Is(r.Context().Err(), context.Canceled):
		return &auth.Refusal{Reason: auth.ClientGone, Cause: err}
	default:
		return &auth.Refusal{Reason: auth.MalformedRequest, Message: "The request body is framed wrongly", Cause: err}
	}
}

func bodyTooLarge(limit int64) *auth.Refusal {
	return &auth.Refusal{
		Reason:  auth.BodyTooLarge,
		Message: "The request body is larger than the " + strconv.FormatInt(limit, 10) + " bytes that this operation allows",
	}
}

func bodyCutShort(cause error) *auth.Refusal {
	return &auth.Refusal{Reason: auth.MalformedRequest, Message: "The request body is shorter than was announced", Cause: cause}
}
