package auth

import (
	"net/http"
	"time"
)

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
	// Unsent reports that the issuer was asked and has certainly seen nothing of the
	// request, such as when no connection could be made.
	Unsent bool
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

// Reason is one member of the closed set of outcomes that a request can have.
// The same name is the metric label, the log field and the row of the code
// table in the documentation. The zero value is [Accepted].
type Reason uint8

// The reasons, in the order in which a request is checked against them.
const (
	Accepted Reason = iota
	UnknownHost
	NotFound
	BadTarget
	MalformedRequest
	MethodNotAllowed
	MissingHeaders       // rule 1 of the published interface, Authentication
	UnknownKey           // rule 2
	KeyDisabled          // rule 3
	KeyExpired           // rule 4
	KeyLocked            // rule 5
	IPNotAllowed         // rule 6
	TimestampOutOfWindow // rule 7
	UnsupportedMediaType
	BodyTooLarge
	BodyTimeout
	ReplayedNonce     // rule 8
	BodyHashMismatch  // rule 9
	SignatureMismatch // rule 10
	ScopeMissing      // rule 12
	ReplayFloor       // rule 8 cannot be decided: nonces of that time may have been lost
	RateLimited
	InvalidBody
	Conflict
	StoreUnavailable
	OverBudget
	InternalError
	UpstreamError
	UpstreamTimeout
	ClientGone
	reasonCount
)

// reasonRow is how a reason appears in answers, logs and metrics.
type reasonRow struct {
	name    string
	status  int
	code    string
	message string
}

// The messages of the ten authentication failures are those of the published
// interface, Authentication error messages.
var reasonTable = [reasonCount]reasonRow{
	Accepted:             {"accepted", http.StatusOK, "", ""},
	UnknownHost:          {"unknown_host", http.StatusMisdirectedRequest, "MISDIRECTED_REQUEST", "This server does not answer for the host that the request names"},
	NotFound:             {"not_found", http.StatusNotFound, "NOT_FOUND", "No such resource"},
	BadTarget:            {"bad_target", http.StatusBadRequest, "BAD_REQUEST", "The request target is malformed or can be read in more than one way"},
	MalformedRequest:     {"malformed_request", http.StatusBadRequest, "BAD_REQUEST", "The request is malformed"},
	MethodNotAllowed:     {"method_not_allowed", http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "Method not allowed; use GET, HEAD, POST, PUT, PATCH or DELETE, in upper case"},
	MissingHeaders:       {"missing_headers", http.StatusUnauthorized, "UNAUTHORIZED", "Missing required authentication headers"},
	UnknownKey:           {"unknown_key", http.StatusUnauthorized, "UNAUTHORIZED", "Invalid API key"},
	KeyDisabled:          {"key_disabled", http.StatusUnauthorized, "UNAUTHORIZED", "API key is disabled"},
	KeyExpired:           {"key_expired", http.StatusUnauthorized, "UNAUTHORIZED", "API key has expired"},
	KeyLocked:            {"key_locked", http.StatusUnauthorized, "UNAUTHORIZED", "API key is locked due to excessive failures"},
	IPNotAllowed:         {"ip_not_allowed", http.StatusUnauthorized, "UNAUTHORIZED", "Request from unauthorized IP address"},
	TimestampOutOfWindow: {"timestamp_out_of_window", http.StatusUnauthorized, "UNAUTHORIZED", "Request timestamp is outside the allowed window"},
	UnsupportedMediaType: {"unsupported_media_type", http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "This operation takes JSON in UTF-8 without Content-Encoding"},
	BodyTooLarge:         {"body_too_large", http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE", "The request body is larger than this operation allows"},
	BodyTimeout:          {"body_timeout", http.StatusRequestTimeout, "REQUEST_TIMEOUT", "The request body did not arrive in time"},
	ReplayedNonce:        {"replayed_nonce", http.StatusUnauthorized, "UNAUTHORIZED", "Replay detected (duplicate nonce)"},
	BodyHashMismatch:     {"body_hash_mismatch", http.StatusUnauthorized, "UNAUTHORIZED", "Body hash mismatch"},
	SignatureMismatch:    {"signature_mismatch", http.StatusUnauthorized, "UNAUTHORIZED", "Signature mismatch"},
	ScopeMissing:         {"scope_missing", http.StatusForbidden, "FORBIDDEN", "The API key lacks the scope that this operation needs"},
	ReplayFloor:          {"replay_floor", http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", "The service cannot verify requests signed before a recent interruption; sign the request anew after the time in Retry-After"},
	RateLimited:          {"rate_limited", http.StatusTooManyRequests, "RATE_LIMITED", "Rate limit exceeded; retry after the time in Retry-After"},
	InvalidBody:          {"invalid_body", http.StatusUnprocessableEntity, "VALIDATION_FAILED", "The request body is not valid"},
	Conflict:             {"conflict", http.StatusConflict, "CONFLICT", "The key is not in the state that this operation needs"},
	StoreUnavailable:     {"store_unavailable", http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", "The service cannot verify requests at the moment; retry later"},
	OverBudget:           {"over_budget", http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", "The service is busy; retry later"},
	InternalError:        {"internal_error", http.StatusInternalServerError, "INTERNAL_ERROR", "Internal error"},
	UpstreamError:        {"upstream_error", http.StatusBadGateway, "UPSTREAM_ERROR", "The card issuer could not be reached or gave an unusable answer"},
	UpstreamTimeout:      {"upstream_timeout", http.StatusGatewayTimeout, "UPSTREAM_TIMEOUT", "The card issuer did not answer in time"},
	ClientGone:           {"client_gone", 499, "CLIENT_GONE", "The client closed the connection"},
}

// String returns the reason's name in the closed set, such as "unknown_key".
func (r Reason) String() string { return r.row().name }

// Status returns the HTTP status that answers the reason.
func (r Reason) Status() int { return r.row().status }

// Code returns the value of error.code in the answer, such as "UNAUTHORIZED".
func (r Reason) Code() string { return r.row().code }

// Message returns the text for the client: for rules 1 to 10 exactly the
// published one.
func (r Reason) Message() string { return r.row().message }

func (r Reason) row() *reasonRow {
	if r >= reasonCount {
		r = InternalError
	}
	return &reasonTable[r]
}

// ReasonNamed returns the reason whose String is the name.
func ReasonNamed(name string) (reason Reason, found bool) {
	for i := range reasonTable {
		if reasonTable[i].name == name {
			return Reason(i), true
		}
	}
	return 0, false
}

// Reasons returns the whole closed set, [Accepted] first.
func Reasons() []Reason {
	all := make([]Reason, reasonCount)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}
