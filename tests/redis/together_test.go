package redis

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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
	// A request that was over the limit spent nothing, so it may come again.
	a.Change(key, harness.Fields{"limits": harness.Fields{"get_card": "51/1d"}})
	for i, answer := range answers {
		if answer.Status == http.StatusTooManyRequests {
			harness.WantAccepted(t, b.Send(t, requests[i]))
			break
		}
	}
	harness.WantRefused(t, a.Send(t, key.Get()), http.StatusTooManyRequests, "RATE_LIMITED")
}

// TestRedisChangesHoldEverywhere changes a key on one gateway; the next
// request on the other is answered by it.
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
	for range harness.Rounds(25, 3) { // a key that was just made
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

// TestRedisOneCallPerRequest counts what the servers are asked in the steady
// state.
func TestRedisOneCallPerRequest(t *testing.T) {
	t.Parallel()
	const each = 300
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t)
	a, b := startPair(t, r, harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit default 1000000/1d\nlimit total 1000000/1d"})
	key := a.NewKey(nil)
	wires := []*harness.Wire{a.Connect(t), b.Connect(t)}
	for _, w := range wires { // the key is known and the script is loaded from here on
		harness.WantAccepted(t, insistOn(t, w, key.Get()))
	}
	before, m := r.ScriptCalls(), r.Monitor()
	for i := range each {
		for _, w := range wires {
			request := key.Get()
			if i%2 == 0 {
				request = key.Post()
			}
			harness.WantAccepted(t, insistOn(t, w, request))
		}
	}
	commands := m.Seen()
	scripts := r.ScriptCalls() - before
	var settles, background []string
	for _, command := range commands {
		if strings.HasPrefix(command, `"evalsha"`) && strings.Contains(command, `"cg:{`+key.ID+`}:k"`) {
			settles = append(settles, command)
		} else {
			background = append(background, command)
			if strings.HasPrefix(command, `"eval`) {
				scripts-- // the census, every half minute
			}
		}
	}
	if len(settles) != 2*each || scripts != 2*each {
		t.Errorf("%d requests took %d calls of the script, %d by INFO commandstats", 2*each, len(settles), scripts)
	}
	wantBackground(t, background)
	if t.Failed() {
		t.Logf("beside the settles, redis was asked:\n%s", strings.Join(background, "\n"))
	}
}

// wantBackground checks that nothing was asked but the look once a second and
// the census, and connections opened.
func wantBackground(t testing.TB, commands []string) {
	t.Helper()
	const atMost = 200 // of two gateways in a test on a slow machine
	for _, command := range commands {
		name, _, _ := strings.Cut(strings.Trim(command, `"`), `"`)
		switch strings.ToLower(name) {
		case "info", "hello", "client":
		case "hmget":
			if !strings.Contains(command, `"cg:servers"`) {
				t.Errorf("redis was asked %s", command)
			}
		case "evalsha", "eval", "hgetall":
			if name != "hgetall" && !strings.Contains(command, `"cg:index"`) {
				t.Errorf("redis was asked %.300s", command)
			}
		default:
			t.Errorf("redis was asked %.300s", command)
		}
	}
	if len(commands) > atMost {
		t.Errorf("redis was asked %d times in the background", len(commands))
	}
}

// TestRedisInventedIDs floods a gateway with key ids that nobody has made.
// They might be imported ones, so they are looked up, within a budget, with two
// calls each: the key, and whether the store was emptied. Nothing is written.
func TestRedisInventedIDs(t *testing.T) {
	t.Parallel()
	const (
		flood      = 3000
		burst, per = 2000, 1000 // look-ups at once, and a second
	)
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: patient(r)})
	key := g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, key.Get()))
	values, before, start := r.Do("dbsize"), r.ScriptCalls(), time.Now()
	var clients sync.WaitGroup
	for client := range 6 {
		w := g.Connect(t)
		clients.Go(func() {
			for i := range flood / 6 {
				invented := harness.Credentials{ID: fmt.Sprintf("invented-%d-%d", client, i), Secret: key.Secret}.Get()
				if i%2 == 0 { // the form of ours, with a checksum that is not
					invented.Set("X-Api-Key", key.ID[:20]+fmt.Sprintf("%c%019d", 'a'+client, i))
				}
				answer, err := w.Exchange(invented)
				if err != nil {
					t.Error(err)
					return
				}
				if answer.Status == http.StatusServiceUnavailable {
					wantUnavailable(t, answer)
				} else {
					harness.WantUnauthorized(t, answer, harness.UnknownKey)
				}
			}
		})
	}
	clients.Wait()
	calls, budget := r.ScriptCalls()-before, burst+per*(1+int(time.Since(start).Seconds()))
	if most := 2*min(flood, budget) + 10; calls > most { // 10: the census
		t.Errorf("%d invented ids made %d calls, want at most %d", flood, calls, most)
	}
	if now := r.Do("dbsize"); now != values {
		t.Errorf("redis holds %v values after the flood, %v before", now, values)
	}
	u.One(t)
	harness.WantAccepted(t, g.Send(t, key.Get()))
	harness.WantAccepted(t, g.Send(t, g.NewKey(nil).Get())) // which no flood keeps from working
}

// TestRedisPrefixes runs two gateways with different prefixes on one Redis.
func TestRedisPrefixes(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t)
	s := harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit get_card 1/1d"}
	s.Store = patient(r, "prefix one:")
	a := harness.StartGateway(t, s)
	s.Store = patient(r, "prefix one-more:")
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
