package matrix

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/tests/harness"
)

// A faultCase is a request to a server that answers on purpose. The last of its
// answers is repeated.
type faultCase struct {
	Name    string
	Method  string
	Content *string
	Headers map[string]string
	Clock   int
	Answers []faultAnswer
	Closed  bool   // no server listens
	Nonce   string // that the caller has chosen
	Max     int    `json:"attempts"` // that the client may make

	OnlyRepeating bool `json:"only_repeating"` // for ways that repeat by themselves
	OnlyRaising   bool `json:"only_raising"`   // for ways that read whole answers
	Nonces        int  // how many must arrive; 0: one for each request

	Requests  int // how many must arrive
	Waits     int // the least seconds between the first two
	Status    int // of the answer that the client returns
	Timestamp *int
	Redirect  bool
	Error     *struct {
		Type       string
		Status     int
		Code       string
		Message    string
		RequestID  string  `json:"request_id"`
		RetryAfter float64 `json:"retry_after"`
		Sent       *bool
		Attempts   int
		Detail     *struct{ Field, Message string }

		NotExecuted bool `json:"not_executed"`
	}
}

type faultAnswer struct {
	Status  int
	Headers map[string]string
	Body    *string
	Message string // of a refusal of the gateway
	Date    *int   // seconds by which the server's clock is ahead of the right one
	Cut     bool   // close the connection in place of an answer
	Short   bool   // close it in the middle of the body
}

func (a faultAnswer) reply(other string) harness.Reply {
	if a.Cut {
		return harness.Reply{}
	}
	body := `{"ok":true}`
	switch {
	case a.Body != nil:
		body = *a.Body
	case a.Message != "":
		body = fmt.Sprintf(`{"success":false,"error":{"code":"UNAUTHORIZED","message":%q}}`, a.Message)
	}
	if a.Headers["Content-Encoding"] == "gzip" {
		var b strings.Builder
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, body)
		_ = w.Close()
		body = b.String()
	}
	var lines []string
	if a.Headers["Content-Type"] == "" {
		lines = append(lines, "Content-Type: application/json")
	}
	for name, value := range a.Headers {
		lines = append(lines, name+": "+strings.ReplaceAll(value, "{other}", other))
	}
	if a.Date != nil {
		lines = append(lines, "Date: "+time.Now().Add(time.Duration(*a.Date)*time.Second).UTC().Format(http.TimeFormat))
	}
	reply := harness.Answer(a.Status, body, lines...)
	if a.Status == http.StatusNoContent {
		reply.Raw = strings.Replace(reply.Raw, "Content-Length: 0\r\n", "", 1)
	}
	if a.Short {
		reply.Raw, reply.HangUp = reply.Raw[:len(reply.Raw)-3], true
	}
	return reply
}

func (b bench) fail(t *testing.T, c faultCase) {
	if c.OnlyRepeating && !b.repeats {
		t.Skip("the library repeats nothing by itself")
	}
	if c.OnlyRaising && !b.raises {
		t.Skip("this way hands the answer over before its body is read")
	}
	other, server := startIssuer(t), startIssuer(t)
	var mu sync.Mutex
	var arrivals []time.Time
	server.Does(func(*harness.Received) harness.Reply {
		mu.Lock()
		defer mu.Unlock()
		arrivals = append(arrivals, time.Now())
		return c.Answers[min(len(arrivals), len(c.Answers))-1].reply("http://" + other.Addr)
	})
	if c.Closed {
		server.Close()
	}
	request := call{
		Do: "request", Adapter: b.adapter, Base: "http://" + server.Addr, KeyID: b.key.ID, Secret: b.key.Secret,
		Method: c.Method, Target: "/api/v1/orders?limit=1", Headers: c.Headers, Clock: c.Clock, Attempts: c.Max,
	}
	if c.Content != nil {
		request.Body, request.HasBody = []byte(*c.Content), true
	}
	if c.Nonce != "" {
		request.Nonce, request.Timestamp = c.Nonce, strconv.FormatInt(time.Now().Unix(), 10)
	}
	got := b.driver.do(t, request)
	mu.Lock()
	defer mu.Unlock()
	arrived := server.Took()
	repeated := b.repeats && c.Method == http.MethodGet && c.Answers != nil && c.Answers[0].Cut
	wantNonces := len(arrived)
	switch {
	case c.Nonces > 0:
		wantNonces = c.Nonces
	case c.Method != http.MethodGet && c.Timestamp == nil:
		wantNonces = min(1, len(arrived))
	}
	if nonces := b.signed(t, arrived); nonces != wantNonces && !repeated {
		t.Errorf("%d nonces arrived in %d requests, want %d", nonces, len(arrived), wantNonces)
	}
	for _, r := range arrived {
		if c.Nonce != "" && r.Value("X-Nonce") != c.Nonce {
			t.Errorf("the nonce is %q, want that of the caller", r.Value("X-Nonce"))
		}
	}
	for _, r := range other.Took() {
		for _, name := range []string{auth.HeaderKeyID, auth.HeaderSignature} {
			if r.Value(name) != "" || b.raises || c.Method != http.MethodGet {
				t.Errorf("another origin received\n%s", r.Raw())
			}
		}
	}
	if len(arrived) != c.Requests && !(c.Redirect && c.Requests == 0) && !(repeated && len(arrived) >= c.Requests) {
		t.Errorf("%d requests arrived, want %d", len(arrived), c.Requests)
	}
	if c.Waits > 0 && len(arrivals) > 1 && arrivals[1].Sub(arrivals[0]) < time.Duration(c.Waits)*time.Second {
		t.Errorf("the second request came %s after the first, want %d s", arrivals[1].Sub(arrivals[0]), c.Waits)
	}
	if c.Timestamp != nil && len(arrived) > 0 {
		stamp, _ := strconv.ParseInt(arrived[len(arrived)-1].Value("X-Timestamp"), 10, 64)
		if off := time.Since(time.Unix(stamp, 0)).Abs(); off > 5*time.Minute {
			t.Errorf("the last timestamp is off by %s", off)
		}
	}
	c.outcome(t, b, got)
}

// outcome checks what the client returns.
func (c faultCase) outcome(t *testing.T, b bench, got result) {
	switch {
	case c.Redirect && !b.raises:
	case c.Redirect:
		if got.Error == nil || got.Error.Type != "redirect" {
			t.Errorf("a redirect results in %d %+v", got.Status, got.Error)
		}
	case c.Error == nil:
		if got.Error != nil || got.Status != c.Status {
			t.Errorf("the result is %d %+v, want %d", got.Status, got.Error, c.Status)
		}
	case c.Error.Type == "api" && !b.raises:
		if got.Error != nil || got.Status != c.Error.Status {
			t.Errorf("the result is %d %+v, want %d", got.Status, got.Error, c.Error.Status)
		}
	case got.Error == nil:
		t.Errorf("the result is %d, want an error", got.Status)
	case got.Error.Type == "taken" || got.Error.Type == "unknown":
		c.undecided(t, got.Error)
	case !b.raises:
		if got.Error.Type != c.Error.Type {
			t.Errorf("the error is %+v, want one of type %s", got.Error, c.Error.Type)
		}
	default:
		c.failed(t, got.Error)
	}
}

// undecided checks an error that names the call.
func (c faultCase) undecided(t *testing.T, got *failure) {
	stamp := time.Unix(got.Timestamp, 0)
	if got.Type != c.Error.Type || got.Message == "" || got.Nonce == "" || c.Nonce != "" && got.Nonce != c.Nonce || c.Clock == 0 && time.Since(stamp).Abs() > time.Minute {
		t.Errorf("the error is %+v, want one of type %s with the nonce and the timestamp", *got, c.Error.Type)
	}
	if got.Type == "unknown" && (got.Attempts != c.Error.Attempts || got.Until-got.Timestamp != 360) {
		t.Errorf("the error is %+v, want %d attempts, and that it may be executed for six minutes", *got, c.Error.Attempts)
	}
}

func (c faultCase) failed(t *testing.T, got *failure) {
	want := c.Error
	text, _ := json.Marshal(got)
	if got.Type != want.Type || got.Status != want.Status || got.RetryAfter != want.RetryAfter ||
		want.Code != "" && got.Code != want.Code || want.Message != "" && got.Message != want.Message ||
		want.RequestID != "" && got.RequestID != want.RequestID || got.NotExecuted != want.NotExecuted {
		t.Errorf("the error is %s, want %+v", text, *want)
	}
	if got.Type == "api" && got.Message == "" {
		t.Errorf("the error has no message: %s", text)
	}
	if want.Attempts != 0 && got.Attempts != want.Attempts || want.Sent != nil && (got.Sent == nil || *got.Sent != *want.Sent) {
		t.Errorf("the error is %s, want %d attempts, and %+v", text, want.Attempts, *want)
	}
	if want.Detail != nil && (len(got.Details) != 1 || got.Details[0].Field != want.Detail.Field || got.Details[0].Message != want.Detail.Message) {
		t.Errorf("the details are %s", text)
	}
}

// signed checks that each request is signed, and returns how many nonces they
// have.
func (b bench) signed(t *testing.T, all []*harness.Received) int {
	nonces := map[string]bool{}
	for _, r := range all {
		method, rest, _ := strings.Cut(r.Line, " ")
		nonce, hash := r.Value(auth.HeaderNonce), auth.BodyHash([]byte(r.Body))
		text := auth.AppendStringToSign(nil, method, strings.TrimSuffix(rest, " HTTP/1.1"), r.Value(auth.HeaderTimestamp), nonce, hash)
		want := auth.NewSecret(1, b.key.Secret, time.Time{}).Sign(text)
		if r.Value(auth.HeaderSignature) != want || r.Value(auth.HeaderBodyHash) != hash || r.Value(auth.HeaderKeyID) != b.key.ID {
			t.Errorf("a request is not signed for what arrived:\n%s", r.Raw())
		}
		nonces[nonce] = true
	}
	return len(nonces)
}
