package redis

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestRedisCopiesAtOnce spreads 64 copies of one request over two gateways.
func TestRedisCopiesAtOnce(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	a, b := startPair(t, harness.StartRedis(t), harness.Site{Upstream: u.Addr, Limits: harness.WithLimits})
	key := a.NewKey(nil)
	for range 5 {
		for _, r := range []*harness.Request{key.Get(), key.Post(), key.Request(http.MethodDelete, "/api/v1/orders/1", "")} {
			got := harness.Messages(harness.SendAtOnce(t, []*harness.Gateway{a, b}, copies(r, 64)))
			if got[""] != 1 || got[harness.Replayed] != 63 {
				t.Fatalf("of 64 copies of %s the answers are %v, want 1 accepted and 63 replays", r.Method, got)
			}
			u.One(t)
			for _, g := range []*harness.Gateway{a, b} {
				harness.WantUnauthorized(t, g.Send(t, r), harness.Replayed)
			}
		}
	}
	b.WantFailures(t, key, 0)
}

// TestRedisLimitIsOne sends 200 requests at once to two gateways that allow
// 50 a day.
func TestRedisLimitIsOne(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	a, b := startPair(t, harness.StartRedis(t), harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit get_card 50/1d"})
	key := b.NewKey(nil)
	requests := make([]*harness.Request, 200)
	for i := range requests {
		requests[i] = key.Get()
	}
	answers := harness.SendAtOnce(t, []*harness.Gateway{a, b}, requests)
	if got := harness.Statuses(answers); got[http.StatusOK] != 50 || got[http.StatusTooManyRequests] != 150 {
		t.Fatalf("the answers are %v, want 50 accepted and 150 over the limit", got)
	}
	if n := len(u.Took()); n != 50 {
		t.Errorf("%d requests reached the upstream, want 50", n)
	}
	remaining := make(map[string]bool)
	for _, answer := range answers {
		if answer.Status == http.StatusTooManyRequests {
			harness.WantRefused(t, answer, http.StatusTooManyRequests, "RATE_LIMITED")
			continue
		}
		left := answer.Header.Get("X-Ratelimit-Remaining")
		if n, err := strconv.Atoi(left); err != nil || n < 0 || n >= 50 || remaining[left] {
			t.Errorf("X-RateLimit-Remaining is %q, want each of 0 to 49 once", left)
		}
		remaining[left] = true
	}
	// A request over the limit has spent nothing, so it may be sent again.
	a.Change(key, harness.Fields{"limits": harness.Fields{"get_card": "51/1d"}})
	for i, answer := range answers {
		if answer.Status == http.StatusTooManyRequests {
			harness.WantAccepted(t, b.Send(t, requests[i]))
			break
		}
	}
	harness.WantRefused(t, a.Send(t, key.Get()), http.StatusTooManyRequests, "RATE_LIMITED")
}

// TestRedisChangesHoldEverywhere changes a key on one gateway; the change applies
// to the next request on the other.
func TestRedisChangesHoldEverywhere(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	a, b := startPair(t, harness.StartRedis(t), harness.Site{Upstream: u.Addr})
	key := a.NewKey(nil)
	wires := map[*harness.Gateway]*harness.Wire{a: a.Connect(t), b: b.Connect(t)}
	for range harness.Rounds(500, 25) {
		for _, turn := range []struct{ change, send *harness.Gateway }{{a, b}, {b, a}} {
			turn.change.Do(key, "disable")
			harness.WantUnauthorized(t, insistOn(t, wires[turn.send], key.Get()), harness.KeyDisabled)
			turn.change.Do(key, "enable")
			harness.WantAccepted(t, insistOn(t, wires[turn.send], key.Get()))
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	for range harness.Rounds(25, 3) {
		old := key
		key.Secret = a.Do(key, "rotate").Secret
		harness.WantAccepted(t, b.Send(t, key.Get()))
		harness.WantAccepted(t, b.Send(t, old.Get()))
		old = key
		key.Secret = b.KeyCall(http.MethodPost, "/"+key.ID+"/rotate", harness.Fields{"overlap": "0"}).Secret
		harness.WantUnauthorized(t, a.Send(t, old.Get()), harness.WrongSignature)
		harness.WantAccepted(t, a.Send(t, key.Get()))
		a.Change(key, harness.Fields{"scopes": []string{"products:read"}})
		harness.WantRefused(t, b.Send(t, key.Get()), http.StatusForbidden, "FORBIDDEN")
		a.Change(key, harness.Fields{"scopes": []string{"*"}})
		harness.WantAccepted(t, b.Send(t, key.Get()))
		if t.Failed() {
			t.FailNow()
		}
	}
	a.KeyCall(http.MethodDelete, "/"+key.ID, nil)
	harness.WantUnauthorized(t, b.Send(t, key.Get()), harness.UnknownKey)
	for range harness.Rounds(25, 3) { // with a new key each time
		harness.WantAccepted(t, b.Send(t, a.NewKey(nil).Get()))
		harness.WantAccepted(t, a.Send(t, b.NewKey(nil).Get()))
	}
}

// TestRedisLockHoldsEverywhere counts failures over both gateways.
func TestRedisLockHoldsEverywhere(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	a, b := startPair(t, harness.StartRedis(t), harness.Site{Upstream: u.Addr})
	key := a.NewKey(nil)
	forged := make([]*harness.Request, 64)
	for i := range forged {
		forged[i] = key.Get().Forge()
	}
	got := harness.Messages(harness.SendAtOnce(t, []*harness.Gateway{a, b}, forged))
	if got[harness.WrongSignature] != 50 || got[harness.KeyLocked] != 1 || got[harness.KeyDisabled] != 13 {
		t.Errorf("64 failures are answered %v, want 50 of their own, 1 locked and 13 disabled", got)
	}
	for _, g := range []*harness.Gateway{a, b} {
		harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
	}
	u.None(t)
	a.Do(key, "unlock")
	harness.WantAccepted(t, b.Send(t, key.Get()))
}

// TestRedisPrefixes runs two gateways with different prefixes on one Redis.
func TestRedisPrefixes(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t)
	s := harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit get_card 1/1d"}
	s.Store = r.Patient("prefix one:")
	a := harness.StartGateway(t, s)
	s.Store = r.Patient("prefix one-more:")
	b := harness.StartGateway(t, s) // with another master key
	own := a.NewKey(nil)
	harness.WantUnauthorized(t, b.Send(t, own.Get()), harness.UnknownKey)
	if status, list := b.Admin(http.MethodGet, "/card-gateway/keys", "", ""); status != http.StatusOK || strings.Contains(list, own.ID) {
		t.Errorf("the other gateway lists %d %s", status, list)
	}
	// The same id and secret on both: nonces, limits and changes are apart.
	twin := harness.Credentials{ID: "twin", Secret: "a secret that both gateways are given"}
	a.ImportKey(twin, nil)
	b.ImportKey(twin, nil)
	request := twin.Get()
	for _, g := range []*harness.Gateway{a, b} {
		harness.WantAccepted(t, g.Send(t, request))
		harness.WantUnauthorized(t, g.Send(t, request), harness.Replayed)
		harness.WantRefused(t, g.Send(t, twin.Get()), http.StatusTooManyRequests, "RATE_LIMITED")
	}
	a.Do(twin, "disable")
	harness.WantUnauthorized(t, a.Send(t, twin.Post()), harness.KeyDisabled)
	harness.WantAccepted(t, b.Send(t, twin.Post()))
	keys, _ := r.Do("keys", "*").([]any)
	for _, name := range keys {
		if text, _ := name.(string); !strings.HasPrefix(text, "one:") && !strings.HasPrefix(text, "one-more:") {
			t.Errorf("redis holds %q", text)
		}
	}
}
