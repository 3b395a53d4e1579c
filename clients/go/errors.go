package cardclient

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// An UnsignableError is a request that cannot be signed. Nothing was sent.
type UnsignableError struct {
	Reason string // what is wrong and what to do
}

func (e *UnsignableError) Error() string { return "card request: " + e.Reason }

// An APIError is an answer with a status of 400 or more, from the gateway or the
// issuer.
type APIError struct {
	Status     int
	Code       string        // such as "VALIDATION_FAILED"; empty if the body names none
	Message    string        // the text of the body, else that of the status
	Details    []Detail      // what was wrong with which field, if the body says so
	RequestID  string        // by which the operator finds the request
	RetryAfter time.Duration // how long to wait; 0 if the answer does not say
	Body       []byte        // as it was received
}

// A Detail is one fault of a refused request.
type Detail struct {
	Field   string `json:"field"`
	Finding string `json:"finding"`
	Message string `json:"message"`
}

func (e *APIError) Error() string {
	return fmt.Sprintf("card request: %d %s: %s (request id %s)", e.Status, e.Code, e.Message, e.RequestID)
}

// A RedirectError is an answer that leads elsewhere. It was not followed: a
// signature is for one target of one host.
type RedirectError struct {
	Status   int
	Location string
}

func (e *RedirectError) Error() string {
	return fmt.Sprintf("card request: the server redirects to %q (%d), which is not followed; correct the base URL", e.Location, e.Status)
}

// A ConnectionError is a request without a whole answer.
type ConnectionError struct {
	Sent     bool // whether the server may have received the request
	Attempts int  // how many were made
	Err      error
}

func (e *ConnectionError) Error() string {
	state := "nothing was sent"
	if e.Sent {
		state = "the server may have received it"
	}
	return fmt.Sprintf("card request: no answer after %d attempts, %s: %v", e.Attempts, state, e.Err)
}

// Unwrap returns the error of the connection.
func (e *ConnectionError) Unwrap() error { return e.Err }

// newAPIError reads the error body of the gateway, or of an issuer that writes
// code and message at the top level.
func newAPIError(r *http.Response, body []byte) *APIError {
	e := &APIError{Status: r.StatusCode, Message: http.StatusText(r.StatusCode), RequestID: r.Header.Get("X-Request-Id"), Body: body}
	e.RetryAfter, _ = retryAfter(r)
	type fields struct {
		Code    string          `json:"code"`
		Message string          `json:"message"`
		Details json.RawMessage `json:"details"`
	}
	var outer struct {
		fields
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return e
	}
	found := outer.fields
	var inner fields
	if json.Unmarshal(outer.Error, &inner) == nil {
		found = inner
	}
	e.Code = found.Code
	if found.Message != "" {
		e.Message = found.Message
	}
	_ = json.Unmarshal(found.Details, &e.Details)
	return e
}

// retryAfter returns Retry-After in its form of seconds.
func retryAfter(r *http.Response) (time.Duration, bool) {
	seconds, err := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 31)
	return time.Duration(seconds) * time.Second, err == nil
}
