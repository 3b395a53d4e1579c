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
		// A key may hold only scopes that some operation asks for.
		Global:  "operation x GET /api/v1/x cards:readx\noperation y GET /api/v1/y cardsx:read\noperation z GET /api/v1/z card:read",
		Servers: "trusted_proxies static 127.0.0.1/32\ntrusted_proxies_strict",
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
					harness.Eventually(t, "a second was long enough", func() bool { return runVector(t, g, u, &v, id) })
				})
			}
			if sent == 0 {
				t.Error("no vector of the file was sent")
			}
		})
	}
}

// runVector reports whether the vector was sent in a second that suits it.
func runVector(t *testing.T, g *harness.Gateway, u *harness.Upstream, v *vector, id string) bool {
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

// drive brings the key into the vector's state by requests and changes.
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
