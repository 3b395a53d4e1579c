package issuer

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

const maxBody = 64 << 10

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

// A problem is an error answer, in this issuer's own shape.
type problem struct {
	status  int
	code    string
	message string
	details []detail
}

type detail struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

func notFound(what, id string) *problem {
	return &problem{status: http.StatusNotFound, code: "NOT_FOUND", message: "no " + what + " " + id}
}

func invalid(details ...detail) *problem {
	return &problem{
		status: http.StatusUnprocessableEntity, code: "VALIDATION_ERROR",
		message: "the request does not pass validation", details: details,
	}
}

func full(what string) *problem {
	return &problem{
		status: http.StatusInsufficientStorage, code: "SANDBOX_FULL",
		message: "the sandbox holds its largest number of " + what + "; restart it to begin anew",
	}
}

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

// serve returns a handler that reads the body, calls op and writes its answer.
func (i *Issuer) serve(op operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			writeProblem(w, &problem{
				status: http.StatusRequestEntityTooLarge, code: "BODY_TOO_LARGE",
				message: "the sandbox issuer reads at most 64 KiB",
			})
			return
		} else if err != nil {
			writeProblem(w, &problem{
				status: http.StatusBadRequest, code: "BAD_BODY", message: "the body did not arrive completely",
			})
			return
		}
		i.mu.Lock()
		status, answer, p := op(&call{
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
			writeJSON(w, status, text)
		}
	})
}

func writeProblem(w http.ResponseWriter, p *problem) {
	type face struct {
		Code    string   `json:"code"`
		Message string   `json:"message"`
		Details []detail `json:"details,omitempty"`
	}
	text, err := json.Marshal(struct {
		Success bool `json:"success"`
		Error   face `json:"error"`
	}{Error: face{p.code, p.message, p.details}})
	if err != nil { // not possible: the shape has strings only
		text = []byte(`{"success":false}`)
	}
	writeJSON(w, p.status, text)
}

func writeJSON(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error here means that the gateway has closed the connection, so that it
	// cannot be reported.
	_, _ = w.Write(text)
}

// stamp returns a moment in the form of the API: ISO 8601 in UTC, whole seconds.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
