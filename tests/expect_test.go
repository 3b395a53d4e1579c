package tests

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
)

// The refusals of the published interface and of the table of errors.
const (
	missingHeaders = "Missing required authentication headers"
	unknownKey     = "Invalid API key"
	keyDisabled    = "API key is disabled"
	keyExpired     = "API key has expired"
	keyLocked      = "API key is locked due to excessive failures"
	ipNotAllowed   = "Request from unauthorized IP address"
	outsideWindow  = "Request timestamp is outside the allowed window"
	replayed       = "Replay detected (duplicate nonce)"
	bodyMismatch   = "Body hash mismatch"
	wrongSignature = "Signature mismatch"
	nonceLost      = "The service cannot verify requests signed before a recent interruption; sign the request anew after the time in Retry-After"
)

// accepted fails the test unless the upstream's answer came back.
func accepted(t testing.TB, r *response) {
	t.Helper()
	if r.status != http.StatusOK {
		t.Errorf("answer is %s, want 200", r)
	}
}

// underFloor checks a refusal by the replay floor.
func underFloor(t testing.TB, r *response) {
	t.Helper()
	refused(t, r, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if wait, err := strconv.Atoi(r.header.Get("Retry-After")); messages([]*response{r})[nonceLost] != 1 || err != nil || wait < 1 || wait > 6 {
		t.Errorf("answer is %s, want the replay floor, and Retry-After from 1 to 6", r)
	}
}

// unauthorized checks a refusal by rules 1 to 10.
func unauthorized(t testing.TB, r *response, message string) {
	t.Helper()
	if message == "" {
		accepted(t, r)
		return
	}
	want := `{"success":false,"error":{"code":"UNAUTHORIZED","message":"` + message + `"}}`
	if r.status != http.StatusUnauthorized || r.body != want {
		t.Errorf("answer is %s, want 401 %s", r, want)
	}
	if got, want := r.header.Get("Www-Authenticate"), `HMAC-SHA256 realm="card-gateway"`; got != want {
		t.Errorf("WWW-Authenticate is %q, want %q", got, want)
	}
	refused(t, r, http.StatusUnauthorized, "UNAUTHORIZED")
}

// refused checks what all refusals have in common.
func refused(t testing.TB, r *response, status int, code string) {
	t.Helper()
	var body struct {
		Success *bool `json:"success"`
		Error   struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.body), &body); err != nil || body.Success == nil || *body.Success {
		t.Errorf("answer is %s, want a JSON error (%v)", r, err)
	}
	if r.status != status || body.Error.Code != code || body.Error.Message == "" {
		t.Errorf("answer is %s, want %d with code %s and a message", r, status, code)
	}
	for name, want := range map[string]string{
		"Content-Type":   "application/json",
		"Cache-Control":  "no-store",
		"Content-Length": strconv.Itoa(len(r.body)),
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s of %s is %q, want %q", name, r, got, want)
		}
	}
	if id := r.header.Values("X-Request-Id"); len(id) != 1 || id[0] == "" {
		t.Errorf("X-Request-Id of %s is %q, want one id", r, id)
	}
	if r.header.Get("Date") == "" {
		t.Errorf("%s has no Date, which clients need to set their clock", r)
	}
}

// count returns how many answers have each status.
func count(answers []*response) map[int]int {
	by := make(map[int]int)
	for _, r := range answers {
		by[r.status]++
	}
	return by
}

// messages returns how many answers have each body.
func messages(answers []*response) map[string]int {
	by := make(map[string]int)
	for _, r := range answers {
		var body struct{ Error struct{ Message string } }
		_ = json.Unmarshal([]byte(r.body), &body)
		by[body.Error.Message]++
	}
	return by
}
