package auth

import "net/http"

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

// Reasons returns the whole closed set, [Accepted] first.
func Reasons() []Reason {
	all := make([]Reason, reasonCount)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}
