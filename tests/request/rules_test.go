// Package request tests how the gateway handles a request: rules, targets,
// bodies, limits, replays, translation, answers.
package request

import (
	"fmt"
	"math/bits"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// stateLockAfter is a small threshold, so that it is reached by few requests.
const stateLockAfter = 2

// brokenRule is a rule of the published interface and how to make it fail.
type brokenRule struct {
	rule    int
	message string
	bit     int
}

var brokenRules = []brokenRule{
	{3, harness.KeyDisabled, 0}, {4, harness.KeyExpired, 1}, {5, harness.KeyLocked, 2}, {6, harness.IPNotAllowed, 3},
	{7, harness.OutsideWindow, 4}, {8, harness.Replayed, 5}, {9, harness.BodyMismatch, 6}, {10, harness.WrongSignature, 7},
}

// TestFirstFailingRuleIsAnswered breaks every combination of rules 3 to 10 and
// 12. It checks that the answer is that of the first one, that only the
// documented failures count, and that nothing reaches the upstream.
func TestFirstFailingRuleIsAnswered(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{
		Upstream: u.Addr,
		Global:   fmt.Sprintf("lock_after %d", stateLockAfter),
	})
	const scope = 1 << 8
	combinations := make(chan int)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for broken := range combinations {
				breakRules(t, g, broken, broken&scope != 0)
			}
		})
	}
	atOnce := harness.Rounds(len(brokenRules)+1, 2) // how many rules are broken together at most
	for broken := 1; broken < 2*scope; broken++ {
		if bits.OnesCount(uint(broken)) <= atOnce {
			combinations <- broken
		}
	}
	close(combinations)
	workers.Wait()
	for _, r := range u.Took() {
		if !strings.HasPrefix(r.Line, "GET /api/v1/cards/before ") {
			t.Errorf("the upstream received %s", r.Line)
		}
	}
}

func breakRules(t *testing.T, g *harness.Gateway, broken int, scopeMissing bool) {
	breaks := func(rule int) bool {
		for _, b := range brokenRules {
			if b.rule == rule {
				return broken&(1<<b.bit) != 0
			}
		}
		return false
	}
	scopes := []string{"cards:read", "cards:write"}
	if scopeMissing {
		scopes = scopes[:1]
	}
	key := g.NewKey(harness.Fields{"scopes": scopes})
	r := key.Request(http.MethodPost, "/api/v1/cards/c1/unfreeze", `{"a":1}`)
	if breaks(8) {
		before := key.Request(http.MethodGet, "/api/v1/cards/before", "")
		harness.WantAccepted(t, g.Send(t, before.Set("X-Nonce", r.Value("X-Nonce")).Sign(key.Secret)))
	}
	if breaks(5) {
		for range stateLockAfter {
			harness.WantUnauthorized(t, g.Send(t, key.Get().Forge()), harness.WrongSignature)
		}
	}
	change := harness.Fields{"disabled": breaks(3)}
	if breaks(4) {
		change["expires_at"] = harness.Moment(time.Now().Add(-time.Hour))
	}
	if breaks(6) {
		change["allowed_ips"] = []string{"203.0.113.0/24"}
	}
	g.Change(key, change)
	if breaks(7) {
		r.Set("X-Timestamp", fmt.Sprint(time.Now().Unix()-301))
	}
	if breaks(9) {
		r.Set("X-Body-Hash", harness.BodyHash("another"))
	}
	r.Sign(key.Secret)
	if breaks(10) {
		r.Forge()
	}
	checkBroken(g, key, g.Send(t, r), broken)
}

// checkBroken checks the answer and the count of failures after it.
func checkBroken(g *harness.Gateway, key harness.Credentials, answer *harness.Response, broken int) {
	t := g.T
	t.Helper()
	first := brokenRule{rule: 12}
	for _, b := range brokenRules {
		if broken&(1<<b.bit) != 0 {
			first = b
			break
		}
	}
	wrong, ok := broken&(1<<7) != 0, !t.Failed()
	if first.rule == 12 {
		harness.WantRefused(t, answer, http.StatusForbidden, "FORBIDDEN")
	} else {
		harness.WantUnauthorized(t, answer, first.message)
	}
	failures := 0
	if broken&(1<<2) != 0 && first.rule != 5 { // the answer of rule 5 also locks the key
		failures = stateLockAfter
	}
	if first.rule == 9 || first.rule == 10 || (first.rule == 7 || first.rule == 8) && wrong {
		failures++
	}
	g.WantFailures(t, key, failures)
	if ok && t.Failed() {
		t.Errorf("this was combination %09b, whose first broken rule is %d", broken, first.rule)
	}
}

// TestMissingHeaders leaves out, empties and doubles each of the five headers.
func TestMissingHeaders(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	for _, name := range []string{"X-API-Key", "X-Timestamp", "X-Nonce", "X-Body-Hash", "X-Signature"} {
		for what, spoil := range map[string]func(*harness.Request){
			"is missing":                  func(r *harness.Request) { r.Drop(name) },
			"is empty":                    func(r *harness.Request) { r.Set(name, "") },
			"is there twice":              func(r *harness.Request) { r.Add(name, r.Value(name)) },
			"is there in another way":     func(r *harness.Request) { r.Add(strings.ReplaceAll(name, "-", "_"), r.Value(name)).Drop(name) },
			"is only a trailer":           func(r *harness.Request) { asTrailer(r, name) },
			"is there twice, once folded": func(r *harness.Request) { r.Add(strings.ToLower(name), "x") },
		} {
			r := key.Request(http.MethodPost, "/api/v1/cards", `{}`)
			spoil(r)
			harness.WantUnauthorized(t, g.Send(t, r), harness.MissingHeaders)
			if t.Failed() {
				t.Fatalf("%s %s", name, what)
			}
		}
	}
	u.None(t)
	g.WantFailures(t, key, 0)
}

// asTrailer sends a header after a chunked body.
func asTrailer(r *harness.Request, name string) {
	value := r.Value(name)
	r.Drop(name).Set("Transfer-Encoding", "chunked").Set("Trailer", name)
	r.Body = chunk(r.Body) + "0\r\n" + name + ": " + value + "\r\n\r\n"
}

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// TestUnknownKeysLookAlike sends ids that no key has.
func TestUnknownKeysLookAlike(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	gone := g.NewKey(nil)
	g.KeyCall(http.MethodDelete, "/"+gone.ID, nil)
	for _, id := range []string{
		"ak_nobody", strings.ToUpper(key.ID), key.ID + "x", key.ID[:len(key.ID)-1], "ck_live_" + strings.Repeat("a", 32),
		gone.ID, "{env.HOME}", "' OR 1=1", strings.Repeat("k", 4000),
	} {
		harness.WantUnauthorized(t, g.Send(t, harness.Credentials{ID: id, Secret: key.Secret}.Get()), harness.UnknownKey)
	}
	u.None(t)
	harness.WantAccepted(t, g.Send(t, key.Get()))
}

// TestRefusalOrder checks which refusal is first if several apply that are not
// verification rules.
func TestRefusalOrder(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{
		Upstream: u.Addr, Limits: harness.WithLimits,
		Auth:   "max_body 1KiB",
		Global: "limit issue_card 1/1d",
	})
	key := g.NewKey(harness.Fields{"scopes": []string{"cards:write"}})
	large := strings.Repeat("x", 2000)
	for _, c := range []struct {
		name   string
		reason string
		r      *harness.Request
	}{
		{"target, method and headers", "bad_target", &harness.Request{Method: "BREW", Target: "/api/v1//cards"}},
		{"method and headers", "method_not_allowed", &harness.Request{Method: "BREW", Target: "/api/v1/cards"}},
		{"headers and body size", "missing_headers", &harness.Request{Method: "POST", Target: "/api/v1/cards", Body: large}},
		{"unknown key and body size", "unknown_key", harness.Credentials{ID: "nobody", Secret: "x"}.Request("POST", "/api/v1/cards", large)},
		{"time and body size", "timestamp_out_of_window", key.RequestAt(time.Now().Add(-time.Hour), "POST", "/api/v1/cards", large)},
		{"body size, hash and signature", "body_too_large", key.Request("POST", "/api/v1/cards", large).Set("X-Body-Hash", harness.BodyHash("")).Forge()},
		{"body size and scope", "body_too_large", key.Request("POST", "/api/v1/orders", large)},
		{"hash and scope", "body_hash_mismatch", key.Request("POST", "/api/v1/orders", "{}").Set("X-Body-Hash", harness.BodyHash("")).Sign(key.Secret)},
		{"nothing", "accepted", key.Request("POST", "/api/v1/cards", "{}")},
		{"limit", "rate_limited", key.Request("POST", "/api/v1/cards", "{}")},
		{"limit and signature", "signature_mismatch", key.Request("POST", "/api/v1/cards", "{}").Forge()},
		{"scope", "scope_missing", key.Request("POST", "/api/v1/orders", "{}")},
	} {
		answer := g.Send(t, c.r)
		switch c.reason {
		case "accepted":
			harness.WantAccepted(t, answer)
		case "body_too_large":
			harness.WantRefused(t, answer, http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
		default:
			wantReason(t, answer, c.reason, c.r.Method)
		}
		if t.Failed() {
			t.Fatalf("several would fit: %s", c.name)
		}
	}
	u.One(t)
}
