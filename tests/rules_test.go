package tests

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
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
	{3, keyDisabled, 0}, {4, keyExpired, 1}, {5, keyLocked, 2}, {6, ipNotAllowed, 3},
	{7, outsideWindow, 4}, {8, replayed, 5}, {9, bodyMismatch, 6}, {10, wrongSignature, 7},
}

// TestFirstFailingRuleIsAnswered breaks every combination of rules 3 to 10 and
// 12 and checks that the first one is answered, that only that counts which is
// said to, and that nothing reaches the upstream.
func TestFirstFailingRuleIsAnswered(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{
		upstream: u.addr,
		global:   fmt.Sprintf("lock_after %d", stateLockAfter),
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
	for broken := 1; broken < 2*scope; broken++ {
		combinations <- broken
	}
	close(combinations)
	workers.Wait()
	for _, r := range u.took() {
		if !strings.HasPrefix(r.line, "GET /api/v1/cards/before ") {
			t.Errorf("the upstream received %s", r.line)
		}
	}
}

func breakRules(t *testing.T, g *gateway, broken int, scopeMissing bool) {
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
	key := g.newKey(fields{"scopes": scopes})
	r := key.request(http.MethodPost, "/api/v1/cards/c1/unfreeze", `{"a":1}`)
	if breaks(8) {
		before := key.request(http.MethodGet, "/api/v1/cards/before", "")
		accepted(t, g.send(t, before.set("X-Nonce", r.value("X-Nonce")).sign(key.secret)))
	}
	if breaks(5) {
		for range stateLockAfter {
			unauthorized(t, g.send(t, key.get().forge()), wrongSignature)
		}
	}
	change := fields{"disabled": breaks(3)}
	if breaks(4) {
		change["expires_at"] = moment(time.Now().Add(-time.Hour))
	}
	if breaks(6) {
		change["allowed_ips"] = []string{"203.0.113.0/24"}
	}
	g.change(key, change)
	if breaks(7) {
		r.set("X-Timestamp", fmt.Sprint(time.Now().Unix()-301))
	}
	if breaks(9) {
		r.set("X-Body-Hash", bodyHash("another"))
	}
	r.sign(key.secret)
	if breaks(10) {
		r.forge()
	}
	checkBroken(t, g, key, g.send(t, r), broken)
}

// checkBroken checks the answer and the count of failures after it.
func checkBroken(t *testing.T, g *gateway, key credentials, answer *response, broken int) {
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
		refused(t, answer, http.StatusForbidden, "FORBIDDEN")
	} else {
		unauthorized(t, answer, first.message)
	}
	failures := 0
	if broken&(1<<2) != 0 && first.rule != 5 { // the answer of rule 5 locks
		failures = stateLockAfter
	}
	if first.rule == 9 || first.rule == 10 || (first.rule == 7 || first.rule == 8) && wrong {
		failures++
	}
	g.wantFailures(t, key, failures)
	if ok && t.Failed() {
		t.Errorf("this was combination %09b, whose first broken rule is %d", broken, first.rule)
	}
}

// TestMissingHeaders leaves out, empties and doubles each of the five headers.
func TestMissingHeaders(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	for _, name := range []string{"X-API-Key", "X-Timestamp", "X-Nonce", "X-Body-Hash", "X-Signature"} {
		for what, spoil := range map[string]func(*request){
			"is missing":                  func(r *request) { r.drop(name) },
			"is empty":                    func(r *request) { r.set(name, "") },
			"is there twice":              func(r *request) { r.add(name, r.value(name)) },
			"is there in another way":     func(r *request) { r.add(strings.ReplaceAll(name, "-", "_"), r.value(name)).drop(name) },
			"is only a trailer":           func(r *request) { r.asTrailer(name) },
			"is there twice, once folded": func(r *request) { r.add(strings.ToLower(name), "x") },
		} {
			r := key.request(http.MethodPost, "/api/v1/cards", `{}`)
			spoil(r)
			unauthorized(t, g.send(t, r), missingHeaders)
			if t.Failed() {
				t.Fatalf("%s %s", name, what)
			}
		}
	}
	u.none(t)
	g.wantFailures(t, key, 0)
}

// asTrailer sends a header behind a chunked body.
func (r *request) asTrailer(name string) {
	value := r.value(name)
	r.drop(name).set("Transfer-Encoding", "chunked").set("Trailer", name)
	r.body = chunk(r.body) + "0\r\n" + name + ": " + value + "\r\n\r\n"
}

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// TestUnknownKeysLookAlike sends ids that nobody has.
func TestUnknownKeysLookAlike(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	gone := g.newKey(nil)
	g.keyCall(http.MethodDelete, "/"+gone.id, nil)
	for _, id := range []string{
		"ak_nobody", strings.ToUpper(key.id), key.id + "x", key.id[:len(key.id)-1], "ck_live_" + strings.Repeat("a", 32),
		gone.id, "{env.HOME}", "' OR 1=1", strings.Repeat("k", 4000),
	} {
		unauthorized(t, g.send(t, credentials{id, key.secret}.get()), unknownKey)
	}
	u.none(t)
	accepted(t, g.send(t, key.get()))
}

// TestRefusalOrder checks which refusal comes first when several would fit
// that are not verification rules.
func TestRefusalOrder(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{
		upstream: u.addr, limits: withLimits,
		auth:   "max_body 1KiB",
		global: "limit issue_card 1/1d",
	})
	key := g.newKey(fields{"scopes": []string{"cards:write"}})
	large := strings.Repeat("x", 2000)
	for _, c := range []struct {
		name   string
		reason string
		r      *request
	}{
		{"target, method and headers", "bad_target", &request{method: "BREW", target: "/api/v1//cards"}},
		{"method and headers", "method_not_allowed", &request{method: "BREW", target: "/api/v1/cards"}},
		{"headers and body size", "missing_headers", &request{method: "POST", target: "/api/v1/cards", body: large}},
		{"unknown key and body size", "unknown_key", credentials{"nobody", "x"}.request("POST", "/api/v1/cards", large)},
		{"time and body size", "timestamp_out_of_window", key.requestAt(time.Now().Add(-time.Hour), "POST", "/api/v1/cards", large)},
		{"body size, hash and signature", "body_too_large", key.request("POST", "/api/v1/cards", large).set("X-Body-Hash", bodyHash("")).forge()},
		{"body size and scope", "body_too_large", key.request("POST", "/api/v1/orders", large)},
		{"hash and scope", "body_hash_mismatch", key.request("POST", "/api/v1/orders", "{}").set("X-Body-Hash", bodyHash("")).sign(key.secret)},
		{"nothing", "accepted", key.request("POST", "/api/v1/cards", "{}")},
		{"limit", "rate_limited", key.request("POST", "/api/v1/cards", "{}")},
		{"limit and signature", "signature_mismatch", key.request("POST", "/api/v1/cards", "{}").forge()},
		{"scope", "scope_missing", key.request("POST", "/api/v1/orders", "{}")},
	} {
		answer := g.send(t, c.r)
		switch c.reason {
		case "accepted":
			accepted(t, answer)
		case "body_too_large":
			refused(t, answer, http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
		default:
			wantReason(t, answer, c.reason, c.r.method)
		}
		if t.Failed() {
			t.Fatalf("several would fit: %s", c.name)
		}
	}
	u.one(t)
}

// TestSpellings sends the right digests in spellings that a lenient decoder
// would take for them.
func TestSpellings(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	for _, spell := range []func([]byte) string{
		base64.URLEncoding.EncodeToString, base64.RawStdEncoding.EncodeToString, twin,
		func(d []byte) string { return fmt.Sprintf("%x", d) },
	} {
		for range 4 { // some digests are written alike in both alphabets
			r := key.get()
			digest := r.digest(key.secret)
			if text := spell(digest); text != base64.StdEncoding.EncodeToString(digest) {
				unauthorized(t, g.send(t, r.set("X-Signature", text)), wrongSignature)
			}
			r = key.request(http.MethodPost, "/api/v1/cards", rand.Text())
			sum := sha256.Sum256([]byte(r.body))
			if text := spell(sum[:]); text != bodyHash(r.body) {
				unauthorized(t, g.send(t, r.set("X-Body-Hash", text).sign(key.secret)), bodyMismatch)
			}
		}
	}
	u.none(t)
}
