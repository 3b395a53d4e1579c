package issuer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// The largest bodies: of documents, and of all else.
const (
	maxDocuments = 20 << 20
	maxBody      = 64 << 10
)

// A call is one request as the operations see it.
type call struct {
	*http.Request
	tenant    string
	requestID string
	now       time.Time
	body      []byte
}

// An operation answers a call with a status and a body (nil: none), or with a
// problem. It holds Issuer.mu while it runs.
type operation func(c *call) (status int, body any, p *problem)

// envelope is the shape of customer answers.
type envelope struct {
	Data       any         `json:"data"`
	Pagination *pagination `json:"pagination,omitempty"`
	RequestID  string      `json:"request_id"`
	Timestamp  string      `json:"timestamp"`
}

func (c *call) envelope(data any, p *pagination) envelope {
	return envelope{Data: data, Pagination: p, RequestID: c.requestID, Timestamp: stamp(c.now)}
}

// page is the shape of the other lists.
type page struct {
	Data       any         `json:"data"`
	Pagination *pagination `json:"pagination"`
}

// serve returns a handler that reads a body, calls the operation of the route and
// writes its answer.
func (i *Issuer) serve(to *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, to.limit))
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			writeProblem(w, &problem{
				status: http.StatusRequestEntityTooLarge, code: "BODY_TOO_LARGE",
				message: fmt.Sprintf("the sandbox issuer reads at most %d bytes here", to.limit),
			})
			return
		} else if err != nil {
			writeProblem(w, &problem{
				status: http.StatusBadRequest, code: "BAD_BODY", message: "the body did not arrive completely",
			})
			return
		}
		warnOfUnknown(w.Header(), body, to.fields)
		i.mu.Lock()
		status, answer, p := to.op(&call{
			Request: r, body: body, now: i.opt.Now(),
			tenant: r.Header.Get(HeaderTenant), requestID: r.Header.Get(HeaderRequestID),
		})
		var text []byte
		if answer != nil {
			text, err = json.Marshal(answer)
		}
		i.mu.Unlock()
		switch {
		case p != nil:
			writeProblem(w, p)
		case err != nil:
			writeProblem(w, &problem{status: http.StatusInternalServerError, code: "INTERNAL_ERROR", message: err.Error()})
		case text == nil:
			w.WriteHeader(status)
		default:
			writeText(w, status, "application/json", text)
		}
	})
}

func writeText(w http.ResponseWriter, status int, kind string, text []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	// An error here means that the gateway has closed the connection, so that it
	// cannot be reported.
	_, _ = w.Write(text)
}

// stamp returns a moment in the form of the API: ISO 8601 in UTC, whole seconds.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
