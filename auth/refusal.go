package auth

import "time"

// A Refusal is the one value by which any part of the gateway refuses. It
// carries what the client may read apart from what only the log may say.
type Refusal struct {
	Reason Reason
	// Message is the text for the client. Empty means the reason's own.
	Message string
	// Details name the offending fields of a body, as the client writes them.
	Details []FieldError
	// RetryAfter, when positive, is how long the client should wait.
	RetryAfter time.Duration
	// Log is what exactly was wrong, for the operator; never a secret, a
	// signature, a nonce or a body.
	Log string
	// Cause is the error beneath, if there is one. It is logged, never shown.
	Cause error
}

// FieldError is one broken constraint of a request body.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
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
