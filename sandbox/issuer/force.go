package issuer

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HeaderForce asks for an answer on purpose, so that a client can try what it does
// then: a status (400, 404, 409, 422, 429, 500, 502, 503 or 504), which is
// answered without anything being done; cut, which does what was asked and breaks
// the answer off in its middle; slow and a span of at most a minute (slow 3s), after
// which the request is carried out as usual; or none, as without the header: programs
// that fill in a form from docs/openapi.yaml send every header.
const HeaderForce = "X-Sandbox-Force"

const maxSlow = time.Minute

// A force is what HeaderForce asks for. The zero value asks for nothing.
type force struct {
	status int
	cut    bool
	slow   time.Duration
}

var forcedStatuses = map[int]string{
	http.StatusBadRequest:          "BAD_REQUEST",
	http.StatusNotFound:            "NOT_FOUND",
	http.StatusConflict:            "CONFLICT",
	http.StatusUnprocessableEntity: "VALIDATION_ERROR",
	http.StatusTooManyRequests:     "TOO_MANY_REQUESTS",
	http.StatusInternalServerError: "INTERNAL_ERROR",
	http.StatusBadGateway:          "BAD_GATEWAY",
	http.StatusServiceUnavailable:  "UNAVAILABLE",
	http.StatusGatewayTimeout:      "TIMEOUT",
}

// parseForce reads HeaderForce. A value that is not one of the above is answered 400.
func parseForce(h http.Header) (force, *problem) {
	values := h.Values(HeaderForce)
	value := strings.Join(values, ", ")
	if len(values) == 0 || value == "none" {
		return force{}, nil
	}
	if value == "cut" {
		return force{cut: true}, nil
	}
	if text, ok := strings.CutPrefix(value, "slow "); ok {
		if span, err := time.ParseDuration(text); err == nil && span >= 0 && span <= maxSlow {
			return force{slow: span}, nil
		}
	}
	if status, err := strconv.Atoi(value); err == nil && forcedStatuses[status] != "" {
		return force{status: status}, nil
	}
	return force{}, &problem{
		status: http.StatusBadRequest, code: "BAD_FORCE",
		message: fmt.Sprintf("%s is %q; it may be 400, 404, 409, 422, 429, 500, 502, 503, 504, cut, slow and a span of at most 1m, such as slow 3s, or none", HeaderForce, value),
	}
}

// serve answers as was asked for, and by next where nothing else was.
func (f force) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	switch {
	case f.status != 0:
		if f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		writeProblem(w, &problem{
			status: f.status, code: forcedStatuses[f.status],
			message: fmt.Sprintf("%s asked for this answer; nothing was done", HeaderForce),
		})
	case f.cut:
		cut(next, w, r)
	case f.slow > 0:
		wait := time.NewTimer(f.slow)
		defer wait.Stop()
		select {
		case <-wait.C:
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	default:
		next.ServeHTTP(w, r)
	}
}

// held is an answer that is not sent yet.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *held) Header() http.Header         { return h.header }
func (h *held) WriteHeader(status int)      { h.status = status }
func (h *held) Write(p []byte) (int, error) { return h.body.Write(p) }

// cut carries the request out, sends half of the answer and breaks off.
func cut(next http.Handler, w http.ResponseWriter, r *http.Request) {
	whole := &held{header: w.Header(), status: http.StatusOK}
	next.ServeHTTP(whole, r)
	w.Header().Set("Content-Length", strconv.Itoa(max(whole.body.Len(), 1)))
	w.WriteHeader(whole.status)
	_, _ = w.Write(whole.body.Next(whole.body.Len() / 2))
	// If the writer cannot flush, the connection ends all the same.
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
