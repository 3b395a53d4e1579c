package redis

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestRedisOneCallPerRequest counts the commands to the servers in the steady state.
// It reads only MONITOR. The counters of INFO are read at other moments, and the
// gateways' own checks run in between.
func TestRedisOneCallPerRequest(t *testing.T) {
	t.Parallel()
	const each = 300
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t)
	a, b := startPair(t, r, harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit default 1000000/1d\nlimit issue_card 1000000/1d\nlimit total 1000000/1d"})
	key := a.NewKey(nil)
	wires := []*harness.Wire{a.Connect(t), b.Connect(t)}
	for _, w := range wires { // the key is known and the script is loaded from here on
		harness.WantAccepted(t, insistOn(t, w, key.Get()))
	}
	m := r.Monitor()
	for i := range each {
		for _, w := range wires {
			request := key.Get()
			if i%2 == 0 {
				request = key.Post()
			}
			harness.WantAccepted(t, insistOn(t, w, request))
		}
	}
	var settles, reads, background []string
	record := `"cg:{` + key.ID + `}:k"`
	for _, command := range m.Seen() {
		switch evaluates := strings.HasPrefix(command, `"evalsha"`); {
		case evaluates && strings.Contains(command, ` "1" `+record):
			reads = append(reads, command)
		case evaluates && strings.Contains(command, record):
			settles = append(settles, command)
		default:
			background = append(background, command)
		}
	}
	if len(reads) > 2 {
		t.Errorf("the record was read %d times; each gateway reads a new key once", len(reads))
	}
	if len(settles) != 2*each {
		t.Errorf("%d requests took %d calls of the script", 2*each, len(settles))
	}
	wantBackground(t, background)
	if t.Failed() {
		t.Logf("beside the settles, redis was asked:\n%s", strings.Join(background, "\n"))
	}
}

// wantBackground checks that there were no other commands than those of the check
// once a second, of the census, of the policies that gateways exchange, and of
// new connections.
func wantBackground(t testing.TB, commands []string) {
	t.Helper()
	const atMost = 1000 // of two gateways in a test on a slow machine
	for _, command := range commands {
		name, _, _ := strings.Cut(strings.Trim(command, `"`), `"`)
		switch strings.ToLower(name) {
		case "info", "hello", "client":
		case "hset", "pexpire":
			if !strings.Contains(command, `"cg:policies"`) {
				t.Errorf("redis was asked %.300s", command)
			}
		case "get":
			if !strings.Contains(command, `"cg:beat"`) {
				t.Errorf("redis was asked %s", command)
			}
		case "hget", "hmget":
			if !strings.Contains(command, `"cg:servers"`) {
				t.Errorf("redis was asked %s", command)
			}
		case "evalsha", "eval", "hgetall":
			// The census, the floor, and what was changed elsewhere.
			known := slices.ContainsFunc([]string{`"cg:index"`, `"cg:servers"`, `"cg:m:id_change"`, `"cg:m:census"`}, func(name string) bool { return strings.Contains(command, name) })
			if name != "hgetall" && !known {
				t.Errorf("redis was asked %.300s", command)
			}
		case "set": // asks whether the server takes writes
			if !strings.Contains(command, `"XX"`) {
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

// TestRedisInventedIDs floods a gateway with invented key ids. They could be
// imported ones, so they are looked up, within a budget. Each look-up takes two
// calls: one for the key, and one to see whether the store was emptied. Nothing
// is written.
func TestRedisInventedIDs(t *testing.T) {
	t.Parallel()
	const (
		flood      = 3000
		burst, per = 2000, 1000 // look-ups at once, and a second
	)
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: r.Patient()})
	key := g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, key.Get()))
	values, before, start := r.Do("keys", "*"), r.ScriptCalls(), time.Now()
	var clients sync.WaitGroup
	for client := range 6 {
		w := g.Connect(t)
		clients.Go(func() {
			for i := range flood / 6 {
				invented := harness.Credentials{ID: fmt.Sprintf("invented-%d-%d", client, i), Secret: key.Secret}.Get()
				if i%2 == 0 { // the gateway's own form, with a wrong checksum
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
	seconds := 1 + int(time.Since(start).Seconds())
	calls, budget := r.ScriptCalls()-before, burst+per*seconds
	if most := 2*min(flood, budget) + 10 + 4*seconds; calls > most { // 10: the census, 4 a second: the changes
		t.Errorf("%d invented ids made %d calls, want at most %d", flood, calls, most)
	}
	// What gateways write by themselves, however few requests there are.
	own := []any{"cg:policies", "cg:beat", "cg:m:census", "cg:servers"}
	for _, name := range r.Do("keys", "*").([]any) {
		if !slices.Contains(append(own, values.([]any)...), name) {
			t.Errorf("redis holds %v after the flood, and did not before", name)
		}
	}
	u.One(t)
	harness.WantAccepted(t, g.Send(t, key.Get()))
	harness.WantAccepted(t, g.Send(t, g.NewKey(nil).Get())) // a new key works during the flood
}
