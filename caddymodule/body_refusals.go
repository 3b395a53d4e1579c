package caddymodule

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/card-gateway/card-gateway/auth"
)

func (br *bodyReader) tooLarge() *auth.Refusal {
	return &auth.Refusal{
		Reason:  auth.BodyTooLarge,
		Message: "The request body is larger than the " + strconv.FormatInt(br.max, 10) + " bytes that this operation allows",
	}
}

// failed says why reading has failed. A body that ends too soon is a request
// that the client cut off, if it is gone, and a wrong one if it still listens.
func (br *bodyReader) failed(r *http.Request, err error) *auth.Refusal {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &auth.Refusal{Reason: auth.BodyTimeout, Log: "a body must begin to arrive within " + arrivalGrace.String() +
			", go on at " + strconv.Itoa(leastRate) + " bytes a second and be complete within " + br.timeout.String()}
	case errors.As(err, &tooLarge):
		return br.tooLarge()
	case errors.Is(err, io.ErrUnexpectedEOF): // whoever has sent half of it may still listen
		return cutShort(err)
	case errors.Is(r.Context().Err(), context.Canceled):
		return &auth.Refusal{Reason: auth.ClientGone, Cause: err}
	default:
		return &auth.Refusal{Reason: auth.MalformedRequest, Message: "The request body is framed wrongly", Cause: err}
	}
}

func cutShort(cause error) *auth.Refusal {
	return &auth.Refusal{Reason: auth.MalformedRequest, Message: "The request body is shorter than was announced", Cause: cause}
}
