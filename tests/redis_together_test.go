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
	u := startUpstream(t)
	a, b := startPair(t, startRedis(t), site{upstream: u.addr, limits: withLimits})
	key := a.newKey(nil)
	for range 5 {
		for _, r := range []*request{key.get(), key.post(), key.request(http.MethodDelete, "/api/v1/orders/1", "")} {
			got := messages(sendOver(t, []*gateway{a, b}, copies(r, 64)))
			if got[""] != 1 || got[replayed] != 63 {
				t.Fatalf("of 64 copies of %s the answers are %v, want 1 accepted and 63 replays", r.method, got)
			}
			u.one(t)
			for _, g := range []*gateway{a, b} {
				unauthorized(t, g.send(t, r), replayed)
			}
		}
	}
	b.wantFailures(t, key, 0)
}

// TestRedisLimitIsOne sends 200 requests at once to two gateways that allow
// 50 a day.
func TestRedisLimitIsOne(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	a, b := startPair(t, startRedis(t), site{upstream: u.addr, limits: withLimits, global: "limit get_card 50/1d"})
	key := b.newKey(nil)
	requests := make([]*request, 200)
	for i := range requests {
		requests[i] = key.get()
	}
	answers := sendOver(t, []*gateway{a, b}, requests)
	if got := count(answers); got[http.StatusOK] != 50 || got[http.StatusTooManyRequests] != 150 {
		t.Fatalf("the answers are %v, want 50 accepted and 150 over the limit", got)
	}
	if n := len(u.took()); n != 50 {
		t.Errorf("%d requests reached the upstream, want 50", n)
	}
	remaining := make(map[string]bool)
	for _, answer := range answers {
		if answer.status == http.StatusTooManyRequests {
			refused(t, answer, http.StatusTooManyRequests, "RATE_LIMITED")
			continue
		}
		left := answer.header.Get("X-Ratelimit-Remaining")
		if n, err := strconv.Atoi(left); err != nil || n < 0 || n >= 50 || remaining[left] {
			t.Errorf("X-RateLimit-Remaining is %q, want each of 0 to 49 once", left)
		}
		remaining[left] = true
	}
	// A request that was over the limit spent nothing, so it may come again.
	a.change(key, fields{"limits": fields{"get_card": "51/1d"}})
	for i, answer := range answers {
		if answer.status == http.StatusTooManyRequests {
			accepted(t, b.send(t, requests[i]))
			break
		}
	}
	refused(t, a.send(t, key.get()), http.StatusTooManyRequests, "RATE_LIMITED")
}

// TestRedisChangesHoldEverywhere changes a key on one gateway; the next
// request on the other is answered by it.
func TestRedisChangesHoldEverywhere(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	a, b := startPair(t, startRedis(t), site{upstream: u.addr})
	key := a.newKey(nil)
	wires := map[*gateway]*wire{a: a.connect(t), b: b.connect(t)}
	for range 500 {
		for _, turn := range []struct{ change, send *gateway }{{a, b}, {b, a}} {
			turn.change.do(key, "disable")
			unauthorized(t, wires[turn.send].insistOn(t, key.get()), keyDisabled)
			turn.change.do(key, "enable")
			accepted(t, wires[turn.send].insistOn(t, key.get()))
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	for range 25 {
		old := key
		key.secret = a.do(key, "rotate").Secret
		accepted(t, b.send(t, key.get()))
		accepted(t, b.send(t, old.get()))
		old = key
		key.secret = b.keyCall(http.MethodPost, "/"+key.id+"/rotate", fields{"overlap": "0"}).Secret
		unauthorized(t, a.send(t, old.get()), wrongSignature)
		accepted(t, a.send(t, key.get()))
		a.change(key, fields{"scopes": []string{"products:read"}})
		refused(t, b.send(t, key.get()), http.StatusForbidden, "FORBIDDEN")
		a.change(key, fields{"scopes": []string{"*"}})
		accepted(t, b.send(t, key.get()))
		if t.Failed() {
			t.FailNow()
		}
	}
	a.keyCall(http.MethodDelete, "/"+key.id, nil)
	unauthorized(t, b.send(t, key.get()), unknownKey)
	for range 25 { // a key that was just made
		accepted(t, b.send(t, a.newKey(nil).get()))
		accepted(t, a.send(t, b.newKey(nil).get()))
	}
}

// TestRedisLockHoldsEverywhere counts failures over both gateways.
func TestRedisLockHoldsEverywhere(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	a, b := startPair(t, startRedis(t), site{upstream: u.addr})
	key := a.newKey(nil)
	forged := make([]*request, 64)
	for i := range forged {
		forged[i] = key.get().forge()
	}
	got := messages(sendOver(t, []*gateway{a, b}, forged))
	if got[wrongSignature] != 50 || got[keyLocked] != 1 || got[keyDisabled] != 13 {
		t.Errorf("64 failures are answered %v, want 50 of their own, 1 locked and 13 disabled", got)
	}
	for _, g := range []*gateway{a, b} {
		unauthorized(t, g.send(t, key.get()), keyDisabled)
	}
	u.none(t)
	a.do(key, "unlock")
	accepted(t, b.send(t, key.get()))
}

// TestRedisOneCallPerRequest counts what the servers are asked in the steady
// state.
func TestRedisOneCallPerRequest(t *testing.T) {
	t.Parallel()
	const each = 300
	u := startUpstream(t)
	r := startRedis(t)
	a, b := startPair(t, r, site{upstream: u.addr, limits: withLimits, global: "limit default 1000000/1d\nlimit total 1000000/1d"})
	key := a.newKey(nil)
	wires := []*wire{a.connect(t), b.connect(t)}
	for _, w := range wires { // the key is known and the script is loaded from here on
		accepted(t, w.insistOn(t, key.get()))
	}
	before, m := r.scriptCalls(), r.monitor()
	for i := range each {
		for _, w := range wires {
			request := key.get()
			if i%2 == 0 {
				request = key.post()
			}
			accepted(t, w.insistOn(t, request))
		}
	}
	commands := m.seen()
	scripts := r.scriptCalls() - before
	var settles, background []string
	for _, command := range commands {
		if strings.HasPrefix(command, `"evalsha"`) && strings.Contains(command, `"cg:{`+key.id+`}:k"`) {
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
	u := startUpstream(t)
	r := startRedis(t)
	g := startGateway(t, site{upstream: u.addr, store: r.patient()})
	key := g.newKey(nil)
	accepted(t, g.send(t, key.get()))
	values, before, start := r.do("dbsize"), r.scriptCalls(), time.Now()
	var clients sync.WaitGroup
	for client := range 6 {
		w := g.connect(t)
		clients.Go(func() {
			for i := range flood / 6 {
				invented := credentials{fmt.Sprintf("invented-%d-%d", client, i), key.secret}.get()
				if i%2 == 0 { // the form of ours, with a checksum that is not
					invented.set("X-Api-Key", key.id[:20]+fmt.Sprintf("%c%019d", 'a'+client, i))
				}
				answer, err := w.exchange(invented)
				if err != nil {
					t.Error(err)
					return
				}
				if answer.status == http.StatusServiceUnavailable {
					wantUnavailable(t, answer)
				} else {
					unauthorized(t, answer, unknownKey)
				}
			}
		})
	}
	clients.Wait()
	calls, budget := r.scriptCalls()-before, burst+per*(1+int(time.Since(start).Seconds()))
	if most := 2*min(flood, budget) + 10; calls > most { // 10: the census
		t.Errorf("%d invented ids made %d calls, want at most %d", flood, calls, most)
	}
	if now := r.do("dbsize"); now != values {
		t.Errorf("redis holds %v values after the flood, %v before", now, values)
	}
	u.one(t)
	accepted(t, g.send(t, key.get()))
	accepted(t, g.send(t, g.newKey(nil).get())) // which no flood keeps from working
}

// TestRedisPrefixes runs two gateways with different prefixes on one Redis.
func TestRedisPrefixes(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	r := startRedis(t)
	s := site{upstream: u.addr, limits: withLimits, global: "limit get_card 1/1d"}
	s.store = "redis " + r.url() + " {\nprefix one:\n}"
	a := startGateway(t, s)
	s.store = "redis " + r.url() + " {\nprefix one-more:\n}"
	b := startGateway(t, s) // with another master key
	own := a.newKey(nil)
	unauthorized(t, b.send(t, own.get()), unknownKey)
	if status, list := b.admin(http.MethodGet, "/card-gateway/keys", "", ""); status != http.StatusOK || strings.Contains(list, own.id) {
		t.Errorf("the other gateway lists %d %s", status, list)
	}
	// The same id and secret on both: nonces, limits and changes are apart.
	twin := credentials{"twin", "a secret that both gateways are given"}
	a.importKey(twin, nil)
	b.importKey(twin, nil)
	request := twin.get()
	for _, g := range []*gateway{a, b} {
		accepted(t, g.send(t, request))
		unauthorized(t, g.send(t, request), replayed)
		refused(t, g.send(t, twin.get()), http.StatusTooManyRequests, "RATE_LIMITED")
	}
	a.do(twin, "disable")
	unauthorized(t, a.send(t, twin.post()), keyDisabled)
	accepted(t, b.send(t, twin.post()))
	keys, _ := r.do("keys", "*").([]any)
	for _, name := range keys {
		if text, _ := name.(string); !strings.HasPrefix(text, "one:") && !strings.HasPrefix(text, "one-more:") {
			t.Errorf("redis holds %q", text)
		}
	}
}
