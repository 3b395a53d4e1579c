package auth

import "time"

// A Refusal is the value that every part of the gateway returns to refuse a
// request. Text for the client and text for the log are different fields.
type Refusal struct {
	Reason Reason
	// Message is the text for the client. Empty means the reason's own.
	Message string
	// Details name the wrong fields of a body, as the client writes them, or
	// what was found out about the refusal.
	Details []FieldError
	// Signed is the gateway's view of the request; nil: not known.
	Signed *SignedView
	// Shown reports whether the answer to a request that is not authenticated
	// may have Details and Signed. The published one has neither.
	Shown bool
	// RetryAfter, when positive, is how long the client should wait.
	RetryAfter time.Duration
	// Log is the text for the operator: what exactly was wrong. It never holds
	// a secret, a signature, a nonce or a body.
	Log string
	// Cause is the error beneath, if there is one. It is logged, never shown.
	Cause error
}

// FieldError is one broken constraint of a request body or header, which Field
// names, or something that was found out about a refusal, which Finding names.
type FieldError struct {
	Field   string `json:"field,omitempty"`
	Finding string `json:"finding,omitempty"`
	Message string `json:"message"`
}

// A SignedView is a request as the gateway received it, for comparing it with
// what the client signed.
type SignedView struct {
	StringToSign string `json:"string_to_sign,omitempty"`
	// ReceivedBytes and ReceivedHash are of the body; nil and empty when it was
	// not read.
	ReceivedBytes *int64 `json:"received_bytes,omitempty"`
	ReceivedHash  string `json:"received_hash,omitempty"`
}

// Refuse returns a refusal for the reason with a note for the log.
func Refuse(reason Reason, log string) *Refusal {
	return &Refusal{Reason: reason, Log: log}
}

// Error describes the refusal for logs. The client's text is [Refusal.Text].
func (r *Refusal) Error() string {
	s := r.Reason.String()
	if r.Log != "" {
		s += ": " + r.Log
	}
	if r.Cause != nil {
		s += ": " + r.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

// Text returns what the client reads in error.message.
func (r *Refusal) Text() string {
	if r.Message != "" {
		return r.Message
	}
	return r.Reason.Message()
}
