package harness

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The refusals of the published interface and of the table of errors.
const (
	MissingHeaders = "Missing required authentication headers"
	UnknownKey     = "Invalid API key"
	KeyDisabled    = "API key is disabled"
	KeyExpired     = "API key has expired"
	KeyLocked      = "API key is locked due to excessive failures"
	IPNotAllowed   = "Request from unauthorized IP address"
	OutsideWindow  = "Request timestamp is outside the allowed window"
	Replayed       = "Replay detected (duplicate nonce)"
	BodyMismatch   = "Body hash mismatch"
	WrongSignature = "Signature mismatch"
	NonceLost      = "The service cannot verify requests signed before a recent interruption; sign the request anew after the time in Retry-After"
)

// WantAccepted fails the test unless the answer is that of the upstream.
func WantAccepted(t testing.TB, r *Response) {
	t.Helper()
	if r.Status != http.StatusOK {
		t.Errorf("answer is %s, want 200", r)
	}
}

// WantUnauthorized checks a refusal by rules 1 to 10.
func WantUnauthorized(t testing.TB, r *Response, message string) {
	t.Helper()
	if message == "" {
		WantAccepted(t, r)
		return
	}
	want := `{"success":false,"error":{"code":"UNAUTHORIZED","message":"` + message + `"}}`
	if r.Status != http.StatusUnauthorized || r.Body != want {
		t.Errorf("answer is %s, want 401 %s", r, want)
	}
	if got, want := r.Header.Get("Www-Authenticate"), `HMAC-SHA256 realm="card-gateway"`; got != want {
		t.Errorf("WWW-Authenticate is %q, want %q", got, want)
	}
	WantRefused(t, r, http.StatusUnauthorized, "UNAUTHORIZED")
}

// WantUnderFloor checks a refusal by the replay floor.
func WantUnderFloor(t testing.TB, r *Response) {
	t.Helper()
	WantRefused(t, r, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if wait, err := strconv.Atoi(r.Header.Get("Retry-After")); Messages([]*Response{r})[NonceLost] != 1 || err != nil || wait < 1 || wait > 6 {
		t.Errorf("answer is %s, want the replay floor, and Retry-After from 1 to 6", r)
	}
}

// WantRefused checks the properties of all refusals.
func WantRefused(t testing.TB, r *Response, status int, code string) {
	t.Helper()
	var body struct {
		Success *bool `json:"success"`
		Error   struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.Body), &body); err != nil || body.Success == nil || *body.Success {
		t.Errorf("answer is %s, want a JSON error (%v)", r, err)
	}
	if r.Status != status || body.Error.Code != code || body.Error.Message == "" {
		t.Errorf("answer is %s, want %d with code %s and a message", r, status, code)
	}
	for name, want := range map[string]string{
		"Content-Type":   "application/json",
		"Cache-Control":  "no-store",
		"Content-Length": strconv.Itoa(len(r.Body)),
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s of %s is %q, want %q", name, r, got, want)
		}
	}
	if no := r.Header.Get("X-Gateway-Forwarded"); (no == "no") != (status == http.StatusServiceUnavailable) {
		t.Errorf("X-Gateway-Forwarded of %s is %q; it is no where the issuer has seen nothing of a 503", r, no)
	}
	if id := r.Header.Values("X-Request-Id"); len(id) != 1 || id[0] == "" {
		t.Errorf("X-Request-Id of %s is %q, want one id", r, id)
	}
	if r.Header.Get("Date") == "" {
		t.Errorf("%s has no Date, which clients need to set their clock", r)
	}
}

// Statuses returns how many answers have each status.
func Statuses(answers []*Response) map[int]int {
	by := make(map[int]int)
	for _, r := range answers {
		by[r.Status]++
	}
	return by
}

// Messages returns how many answers have each body.
func Messages(answers []*Response) map[string]int {
	by := make(map[string]int)
	for _, r := range answers {
		var body struct{ Error struct{ Message string } }
		_ = json.Unmarshal([]byte(r.Body), &body)
		by[body.Error.Message]++
	}
	return by
}

// Rounds returns how often a test repeats its work: full, or short under `go test
// -short`.
func Rounds(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}

// Eventually waits until the condition holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("it never happened that %s", what)
}

// WantStartError checks that a refusal to start logs one error in one line.
func WantStartError(t testing.TB, said string, parts ...string) {
	t.Helper()
	var found []string
	for line := range strings.Lines(said) {
		if strings.Contains(line, `"level":"error"`) {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d lines say why the gateway does not start, want 1:\n%s", len(found), said)
	}
	for _, part := range parts {
		if !strings.Contains(found[0], part) {
			t.Errorf("the gateway says %q, want %q in it", found[0], part)
		}
	}
	if strings.Contains(said, "goroutine ") || strings.Contains(found[0], "no global option") {
		t.Errorf("the gateway misleads with:\n%s", said)
	}
}
