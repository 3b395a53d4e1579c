package request

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestVectors sends every vector to a running gateway, each with a key of its
// own that was brought into the state which the vector asks for.
func TestVectors(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{
		Upstream: u.Addr,
		Servers:  "trusted_proxies static 127.0.0.1/32\ntrusted_proxies_strict",
	})
	next := 0
	for _, file := range []string{
		"string_to_sign", "targets", "methods", "headers", "keys", "addresses",
		"timestamps", "nonces", "bodies", "signatures", "scopes",
	} {
		t.Run(file, func(t *testing.T) {
			sent := 0
			for _, v := range readVectors(t, file) {
				if v.beyondReach() != "" {
					continue
				}
				sent++
				next++
				id := fmt.Sprintf("ak_test_1v%d", next)
				t.Run(v.Name, func(t *testing.T) {
					harness.Eventually(t, "a second was long enough", func() bool { return v.run(t, g, u, id) })
				})
			}
			if sent == 0 {
				t.Error("no vector of the file was sent")
			}
		})
	}
}

// run reports whether the vector was sent and judged in the same second, if its
// answer depends on that.
func (v *vector) run(t *testing.T, g *harness.Gateway, u *harness.Upstream, id string) bool {
	key := g.ImportKey(harness.Credentials{ID: id, Secret: v.secret()}, nil)
	// The next vector uses the same secret, which only one key may have.
	defer g.KeyCall(http.MethodDelete, "/"+id, nil)
	v.drive(t, g, key)
	u.Took()
	before := g.Show(key).Failures
	if v.onEdge() {
		earlyInASecond()
	}
	second := time.Now().Unix()
	answer := g.Send(t, v.request(id))
	if v.onEdge() && time.Now().Unix() != second {
		return false
	}
	v.wants(t, answer, u.Took())
	want := before
	switch {
	case v.Expect.Counts:
		want++
	case v.Expect.Reason == "accepted", v.Expect.Reason == "key_locked":
		want = 0
	}
	g.WantFailures(t, key, want)
	return true
}

// drive puts the key into the vector's state by requests and changes.
func (v *vector) drive(t *testing.T, g *harness.Gateway, key harness.Credentials) {
	t.Helper()
	w := g.Connect(t)
	defer w.Close()
	send := func(r *harness.Request) {
		t.Helper()
		if _, err := w.Exchange(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, nonce := range v.State.Nonces {
		send(key.Get().Set("X-Nonce", nonce).Sign(key.Secret))
	}
	if len(v.State.OtherKeyNonces) > 0 {
		other := g.NewKey(nil)
		for _, nonce := range v.State.OtherKeyNonces {
			send(other.Get().Set("X-Nonce", nonce).Sign(other.Secret))
		}
	}
	failures := v.State.Failures
	if v.Key.Lock != nil {
		failures = 51 // the one after the threshold locks
	}
	for range failures {
		send(key.Get().Forge())
	}
	change := harness.Fields{}
	if v.Key.Scopes != nil {
		change["scopes"] = v.Key.Scopes
	}
	if v.Key.AllowedIPs != nil {
		change["allowed_ips"] = v.Key.AllowedIPs
	}
	if v.Key.Disabled {
		change["disabled"] = true
	}
	if at := v.Key.ExpiresAt; at != nil {
		off := time.Duration(at.Unix()-vectorNow) * time.Second
		if off > 0 {
			off = time.Hour // far enough for a machine that is busy
		}
		change["expires_at"] = harness.Moment(time.Now().Add(off))
	}
	if len(change) > 0 {
		g.Change(key, change)
	}
}

// earlyInASecond waits until enough of the current second is left to send a
// request in it.
func earlyInASecond() {
	const enough = 400 * time.Millisecond
	now := time.Now()
	if into := now.Sub(now.Truncate(time.Second)); into > enough {
		time.Sleep(time.Second - into)
	}
}

// TestVectorsWithoutAuthentication sends every ambiguous target of the vectors
// unsigned: nothing but the published refusals may come back.
func TestVectorsWithoutAuthentication(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	for _, v := range readVectors(t, "targets") {
		if v.beyondReach() != "" {
			continue
		}
		answer := g.Send(t, &harness.Request{Method: v.Method, Target: v.target()})
		if answer.Status/100 != 4 {
			t.Errorf("%s: answer is %s, want a refusal", v.Name, answer)
		}
		if v.Expect.Reason == "accepted" && strings.HasPrefix(v.target(), "/api/v1/") {
			harness.WantUnauthorized(t, answer, harness.MissingHeaders)
		}
	}
	u.None(t)
}

// wants checks the answer to a vector and what reached the upstream.
func (v *vector) wants(t *testing.T, answer *harness.Response, reached []*harness.Received) {
	t.Helper()
	if v.Expect.Reason == "accepted" {
		harness.WantAccepted(t, answer)
		target := v.Expect.UpstreamTarget
		if target == "" {
			target = v.target()
		}
		want := fmt.Sprintf("[%q]", v.Method+" "+target+" HTTP/1.1")
		if got := fmt.Sprintf("%q", harness.Lines(reached)); got != want {
			t.Errorf("the upstream received %s, want %s", got, want)
		} else if reached[0].Body != v.body() {
			t.Errorf("the upstream received the body %q, want %q", reached[0].Body, v.body())
		} else if got := reached[0].Value("X-Gateway-Operation"); v.Expect.Operation != "" && got != v.Expect.Operation {
			t.Errorf("the operation is %q, want %q", got, v.Expect.Operation)
		}
		return
	}
	if len(reached) > 0 {
		t.Errorf("the upstream received %q", harness.Lines(reached))
	}
	wantReason(t, answer, v.Expect.Reason, v.Method)
}

// wantReason checks that the answer is that of a reason of the closed set.
func wantReason(t *testing.T, answer *harness.Response, reason, method string) {
	t.Helper()
	face, found := faces[reason]
	if !found {
		t.Fatalf("no answer is known for %s", reason)
	}
	switch {
	case reason == "bad_target" && (answer.Status == http.StatusNotFound || answer.Status == http.StatusBadRequest):
		// of the gateway, of the HTTP server or of the site's catch-all
	case method == http.MethodHead:
		if answer.Status != face.status {
			t.Errorf("answer is %s, want %d", answer, face.status)
		}
	case face.status == http.StatusUnauthorized:
		harness.WantUnauthorized(t, answer, face.message)
	default:
		harness.WantRefused(t, answer, face.status, face.code)
	}
}

// faces are the published answers, by reason.
var faces = map[string]struct {
	status        int
	code, message string
}{
	"bad_target":              {400, "BAD_REQUEST", ""},
	"method_not_allowed":      {405, "METHOD_NOT_ALLOWED", ""},
	"missing_headers":         {401, "UNAUTHORIZED", harness.MissingHeaders},
	"unknown_key":             {401, "UNAUTHORIZED", harness.UnknownKey},
	"key_disabled":            {401, "UNAUTHORIZED", harness.KeyDisabled},
	"key_expired":             {401, "UNAUTHORIZED", harness.KeyExpired},
	"key_locked":              {401, "UNAUTHORIZED", harness.KeyLocked},
	"ip_not_allowed":          {401, "UNAUTHORIZED", harness.IPNotAllowed},
	"timestamp_out_of_window": {401, "UNAUTHORIZED", harness.OutsideWindow},
	"replayed_nonce":          {401, "UNAUTHORIZED", harness.Replayed},
	"body_hash_mismatch":      {401, "UNAUTHORIZED", harness.BodyMismatch},
	"signature_mismatch":      {401, "UNAUTHORIZED", harness.WrongSignature},
	"scope_missing":           {403, "FORBIDDEN", ""},
	"rate_limited":            {429, "RATE_LIMITED", ""},
}
