package tests

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestRedisCopiesAtOnce spreads 64 copies of one request over two gateways.
func TestRedisCopiesAtOnce(t *testing.T) {
	t.Parallel()
	u := StartUpstream(t)
	a, b := startPair(t, StartRedis(t), Site{Upstream: u.Addr, Limits: WithLimits})
	key := a.NewKey(nil)
	for range 5 {
		for _, r := range []*Request{key.Get(), key.Post(), key.Request(http.MethodDelete, "/api/v1/orders/1", "")} {
			got := Messages(SendAtOnce(t, []*Gateway{a, b}, copies(r, 64)))
			if got[""] != 1 || got[Replayed] != 63 {
				t.Fatalf("of 64 copies of %s the answers are %v, want 1 accepted and 63 replays", r.Method, got)
			}
			u.One(t)
			for _, g := range []*Gateway{a, b} {
				WantUnauthorized(t, g.Send(t, r), Replayed)
			}
		}
	}
	b.WantFailures(t, key, 0)
}

// TestRedisLimitIsOne sends 200 requests at once to two gateways that allow
// 50 a day.
func TestRedisLimitIsOne(t *testing.T) {
	t.Parallel()
	u := StartUpstream(t)
	a, b := startPair(t, StartRedis(t), Site{Upstream: u.Addr, Limits: WithLimits, Global: "limit get_card 50/1d"})
	key := b.NewKey(nil)
	requests := make([]*Request, 200)
	for i := range requests {
		requests[i] = key.Get()
	}
	answers := SendAtOnce(t, []*Gateway{a, b}, requests)
	if got := Statuses(answers); got[http.StatusOK] != 50 || got[http.StatusTooManyRequests] != 150 {
		t.Fatalf("the answers are %v, want 50 accepted and 150 over the limit", got)
	}
	if n := len(u.Took()); n != 50 {
		t.Errorf("%d requests reached the upstream, want 50", n)
	}
	remaining := make(map[string]bool)
	for _, answer := range answers {
		if answer.Status == http.StatusTooManyRequests {
			WantRefused(t, answer, http.StatusTooManyRequests, "RATE_LIMITED")
			continue
		}
		left := answer.Header.Get("X-Ratelimit-Remaining")
		if n, err := strconv.Atoi(left); err != nil || n < 0 || n >= 50 || remaining[left] {
			t.Errorf("X-RateLimit-Remaining is %q, want each of 0 to 49 once", left)
		}
		remaining[left] = true
	}
	// A request that was over the limit spent nothing, so it may come again.
	a.Change(key, Fields{"limits": Fields{"get_card": "51/1d"}})
	for i, answer := range answers {
		if answer.Status == http.StatusTooManyRequests {
			WantAccepted(t, b.Send(t, requests[i]))
			break
		}
	}
	WantRefused(t, a.Send(t, key.Get()), http.StatusTooManyRequests, "RATE_LIMITED")
}

// TestRedisChangesHoldEverywhere changes a key on one gateway; the next
// request on the other is answered by it.
func TestRedisChangesHoldEverywhere(t *testing.T) {
	t.Parallel()
	u := StartUpstream(t)
	a, b := startPair(t, StartRedis(t), Site{Upstream: u.Addr})
	key := a.NewKey(nil)
	wires := map[*Gateway]*Wire{a: a.Connect(t), b: b.Connect(t)}
	for range 500 {
		for _, turn := range []struct{ change, send *Gateway }{{a, b}, {b, a}} {
			turn.change.Do(key, "disable")
			WantUnauthorized(t, insistOn(t, wires[turn.send], key.Get()), KeyDisabled)
			turn.change.Do(key, "enable")
			WantAccepted(t, insistOn(t, wires[turn.send], key.Get()))
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	for range 25 {
		old := key
		key.Secret = a.Do(key, "rotate").Secret
		WantAccepted(t, b.Send(t, key.Get()))
		WantAccepted(t, b.Send(t, old.Get()))
		old = key
		key.Secret = b.KeyCall(http.MethodPost, "/"+key.ID+"/rotate", Fields{"overlap": "0"}).Secret
		WantUnauthorized(t, a.Send(t, old.Get()), WrongSignature)
		WantAccepted(t, a.Send(t, key.Get()))
		a.Change(key, Fields{"scopes": []string{"products:read"}})
		WantRefused(t, b.Send(t, key.Get()), http.StatusForbidden, "FORBIDDEN")
		a.Change(key, Fields{"scopes": []string{"*"}})
		WantAccepted(t, b.Send(t, key.Get()))
		if t.Failed() {
			t.FailNow()
		}
	}
	a.KeyCall(http.MethodDelete, "/"+key.ID, nil)
	WantUnauthorized(t, b.Send(t, key.Get()), UnknownKey)
	for range 25 { // a key that was just made
		WantAccepted(t, b.Send(t, a.NewKey(nil).Get()))
		WantAccepted(t, a.Send(t, b.NewKey(nil).Get()))
	}
}

// TestRedisLockHoldsEverywhere counts failures over both gateways.
func TestRedisLockHoldsEverywhere(t *testing.T) {
	t.Parallel()
	u := StartUpstream(t)
	a, b := startPair(t, StartRedis(t), Site{Upstream: u.Addr})
	key := a.NewKey(nil)
	forged := make([]*Request, 64)
	for i := range forged {
		forged[i] = key.Get().Forge()
	}
	got := Messages(SendAtOnce(t, []*Gateway{a, b}, forged))
	if got[WrongSignature] != 50 || got[KeyLocked] != 1 || got[KeyDisabled] != 13 {
		t.Errorf("64 failures are answered %v, want 50 of their own, 1 locked and 13 disabled", got)
	}
	for _, g := range []*Gateway{a, b} {
		WantUnauthorized(t, g.Send(t, key.Get()), KeyDisabled)
	}
	u.None(t)
	a.Do(key, "unlock")
	WantAccepted(t, b.Send(t, key.Get()))
}

// TestRedisOneCallPerRequest counts what the servers are asked in the steady
// state.
func TestRedisOneCallPerRequest(t *testing.T) {
	t.Parallel()
	const each = 300
	u := StartUpstream(t)
	r := StartRedis(t)
	a, b := startPair(t, r, Site{Upstream: u.Addr, Limits: WithLimits, Global: "limit default 1000000/1d\nlimit total 1000000/1d"})
	key := a.NewKey(nil)
	wires := []*Wire{a.Connect(t), b.Connect(t)}
	for _, w := range wires { // the key is known and the script is loaded from here on
		WantAccepted(t, insistOn(t, w, key.Get()))
	}
	before, m := r.ScriptCalls(), r.Monitor()
	for i := range each {
		for _, w := range wires {
			request := key.Get()
			if i%2 == 0 {
				request = key.Post()
			}
			WantAccepted(t, insistOn(t, w, request))
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
	u := StartUpstream(t)
	r := StartRedis(t)
	g := StartGateway(t, Site{Upstream: u.Addr, Store: patient(r)})
	key := g.NewKey(nil)
	WantAccepted(t, g.Send(t, key.Get()))
	values, before, start := r.Do("dbsize"), r.ScriptCalls(), time.Now()
	var clients sync.WaitGroup
	for client := range 6 {
		w := g.Connect(t)
		clients.Go(func() {
			for i := range flood / 6 {
				invented := Credentials{fmt.Sprintf("invented-%d-%d", client, i), key.Secret}.Get()
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
					WantUnauthorized(t, answer, UnknownKey)
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
	WantAccepted(t, g.Send(t, key.Get()))
	WantAccepted(t, g.Send(t, g.NewKey(nil).Get())) // which no flood keeps from working
}

// TestRedisPrefixes runs two gateways with different prefixes on one Redis.
func TestRedisPrefixes(t *testing.T) {
	t.Parallel()
	u := StartUpstream(t)
	r := StartRedis(t)
	s := Site{Upstream: u.Addr, Limits: WithLimits, Global: "limit get_card 1/1d"}
	s.Store = "redis " + r.URL() + " {\nprefix one:\n}"
	a := StartGateway(t, s)
	s.Store = "redis " + r.URL() + " {\nprefix one-more:\n}"
	b := StartGateway(t, s) // with another master key
	own := a.NewKey(nil)
	WantUnauthorized(t, b.Send(t, own.Get()), UnknownKey)
	if status, list := b.Admin(http.MethodGet, "/card-gateway/keys", "", ""); status != http.StatusOK || strings.Contains(list, own.ID) {
		t.Errorf("the other gateway lists %d %s", status, list)
	}
	// The same id and secret on both: nonces, limits and changes are apart.
	twin := Credentials{"twin", "a secret that both gateways are given"}
	a.ImportKey(twin, nil)
	b.ImportKey(twin, nil)
	request := twin.Get()
	for _, g := range []*Gateway{a, b} {
		WantAccepted(t, g.Send(t, request))
		WantUnauthorized(t, g.Send(t, request), Replayed)
		WantRefused(t, g.Send(t, twin.Get()), http.StatusTooManyRequests, "RATE_LIMITED")
	}
	a.Do(twin, "disable")
	WantUnauthorized(t, a.Send(t, twin.Post()), KeyDisabled)
	WantAccepted(t, b.Send(t, twin.Post()))
	keys, _ := r.Do("keys", "*").([]any)
	for _, name := range keys {
		if text, _ := name.(string); !strings.HasPrefix(text, "one:") && !strings.HasPrefix(text, "one-more:") {
			t.Errorf("redis holds %q", text)
		}
	}
}
