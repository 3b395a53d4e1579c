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
	// What the gateway says of a request that it has refused: whether it has accepted
	// it, and whether the issuer may have seen it. nil: it does not say.
	Accepted, Forwarded *bool
}

// NotExecuted reports whether the gateway says that the request was accepted, and has
// reached no issuer: it is certainly not executed, and never will be.
func (e *APIError) NotExecuted() bool {
	return e.Accepted != nil && *e.Accepted && e.Forwarded != nil && !*e.Forwarded
}

// ofGateway reports whether the answer has the form of a refusal by the gateway.
func (e *APIError) ofGateway() bool {
	return e.Accepted != nil || e.Status == http.StatusUnauthorized && e.Code == "UNAUTHORIZED" || e.Code == "UPSTREAM_ERROR" || e.Code == "UPSTREAM_TIMEOUT"
}

func (e *APIError) is(message string) bool {
	return e.Status == http.StatusUnauthorized && e.Message == message
}

// A Call names one call: what was signed once, and is accepted at most once.
type Call struct {
	Nonce     string
	Timestamp time.Time
}

// Until returns when nothing can execute the call any more.
func (c Call) Until() time.Time { return c.Timestamp.Add(mayExecuteFor) }

// A TakenError is a call that the gateway had accepted before: an earlier attempt has
// arrived, and its answer was lost. The issuer has executed it at most once, perhaps not:
// read what it should have made. Do not send it as a new call.
type TakenError struct {
	Call
	RequestID string

	perhaps bool // by an attempt of the same request
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("card request: the call %s was taken before, and its answer is lost; read what it should have made (request id %s)", e.Nonce, e.RequestID)
}

// An UnknownError is a call of which it is not known whether it was executed, or will be
// before [Call.Until]. [Client.CloseCall] settles it.
type UnknownError struct {
	Call
	Attempts int
	Err      error // of the last attempt
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("card request: it is not known whether the call %s was executed, and it may be until %s; close it, or read what it should have made: after %d attempts: %v",
		e.Nonce, e.Until().UTC().Format(time.RFC3339), e.Attempts, e.Err)
}

// Unwrap returns the error of the last attempt.
func (e *UnknownError) Unwrap() error { return e.Err }

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

// newAPIError reads the error body of the gateway, of an issuer that writes code and
// message at the top level, or of RFC 9457 (problem+json).
func newAPIError(r *http.Response, body []byte) *APIError {
	e := &APIError{Status: r.StatusCode, Message: http.StatusText(r.StatusCode), RequestID: r.Header.Get("X-Request-Id"), Body: body}
	e.RetryAfter, _ = retryAfter(r)
	if r.StatusCode < 400 {
		return e
	}
	type fields struct {
		Code      string          `json:"code"`
		Message   string          `json:"message"`
		Title     string          `json:"title"`
		Detail    string          `json:"detail"`
		Details   json.RawMessage `json:"details"`
		Errors    json.RawMessage `json:"errors"`
		Accepted  *bool           `json:"accepted"`
		Forwarded *bool           `json:"forwarded"`
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
		e.Accepted, e.Forwarded = inner.Accepted, inner.Forwarded
	}
	e.Code = found.Code
	for _, text := range []string{found.Detail, found.Title, found.Message} {
		if text != "" {
			e.Message = text
		}
	}
	if found.Message == "" && found.Title != "" && found.Detail != "" {
		e.Message = found.Title + ": " + found.Detail
	}
	if json.Unmarshal(found.Details, &e.Details) != nil {
		_ = json.Unmarshal(found.Errors, &e.Details)
	}
	return e
}

// retryAfter returns Retry-After in its form of seconds.
func retryAfter(r *http.Response) (time.Duration, bool) {
	seconds, err := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 31)
	return time.Duration(seconds) * time.Second, err == nil
}
