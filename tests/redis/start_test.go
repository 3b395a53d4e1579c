// Package redis tests gateways that share a Redis: their work together, failures
// of Redis, and the commands that it gets.
package redis

import (
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestRedisDownAtStart starts a gateway while Redis is out of reach, on a
// store that is new and on one that is in use.
func TestRedisDownAtStart(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := outageSite(u, r)
	g := harness.NewGateway(t, s)
	g.StartNotReady()
	stranger := harness.Credentials{ID: "ck_live_abcdefghijklmnopqrstuvwxyz234567", Secret: "secret of nobody"}
	down := func(c harness.Credentials) {
		t.Helper()
		wantNotReady(t, g, "the store cannot answer")
		wantUnavailable(t, g.Send(t, c.Get()))
		wantUnavailable(t, g.Send(t, c.Post().Forge()))
		if status, answer := g.Admin(http.MethodPost, "/card-gateway/keys", "application/json", harness.JSONText(t, harness.KeyFields(nil))); status != http.StatusServiceUnavailable {
			t.Errorf("making a key is answered %d %s, want 503", status, answer)
		}
	}
	down(stranger)
	r.Start()
	if !g.BecomesReady() {
		t.Fatal("the gateway does not become ready")
	}
	key := g.NewKey(nil)
	harness.Eventually(t, "requests are accepted", func() bool { return g.Send(t, key.Get()).Status == http.StatusOK })
	harness.WantUnauthorized(t, g.Send(t, stranger.Get()), harness.UnknownKey)
	first := key.Get()
	harness.WantAccepted(t, g.Send(t, first))

	g.Kill()
	r.Kill()
	u.Took()
	g.StartNotReady()
	down(key) // no gateway can know the key now
	r.Start()
	harness.Eventually(t, "requests are accepted", func() bool {
		answer := g.Send(t, key.Get())
		if answer.Status != http.StatusOK { // under the replay floor, because it is another run of Redis
			harness.WantRefused(t, answer, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
		}
		return t.Failed() || answer.Status == http.StatusOK
	})
	if answer := judged(t, g.Connect(t), first); answer.Status == http.StatusOK {
		t.Errorf("a request of before is answered %s", answer)
	}
}

// TestRedisUnfit starts on servers that can be reached and must not be used.
func TestRedisUnfit(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	port := harness.StartRedis(t).ListenTCP()
	const password = "hunter2-and-more"
	locked := harness.StartRedis(t)
	locked.Do("config", "set", "requirepass", "another")
	for name, c := range map[string]struct {
		store string
		says  []string
	}{
		"evicts":           {harness.StartRedis(t, "--maxmemory-policy", "allkeys-lru").Patient(), []string{"allkeys-lru", "noeviction"}},
		"is a replica":     {harness.StartRedis(t, "--replicaof", "127.0.0.1 "+port).Patient(), []string{"replica", "master"}},
		"wants another":    {locked.Patient("password file {$HOME}/password"), []string{"username, password"}},
		"wants a password": {locked.Patient(), []string{"username, password"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := harness.NewGateway(t, harness.Site{Upstream: u.Addr, Store: c.store})
			g.WriteFile("password", password+"\n")
			said := g.RefusesToStart()
			harness.WantStartError(t, said, c.says...)
			if strings.Contains(said, password) {
				t.Errorf("the gateway shows the password:\n%s", said)
			}
		})
	}
}

// TestRedisPasswordIsAReference tries passwords in places where Caddy would
// show them. Each is refused.
func TestRedisPasswordIsAReference(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	for _, store := range []string{
		"redis redis://user:hunter2@127.0.0.1:6379/0",
		"redis rediss://:hunter2@127.0.0.1:6379",
		"redis unix://user:hunter2@/run/redis.sock",
	} {
		g := harness.NewGateway(t, harness.Site{Upstream: u.Addr, Store: store})
		g.WriteFile("Caddyfile", g.Caddyfile())
		for _, command := range []string{"adapt", "validate", "run"} {
			out, err := g.Command(command, "--adapter", "caddyfile", "--config", g.Path("Caddyfile")).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "password env NAME") {
				t.Errorf("%s with %s: %v, %s", command, store, err, out)
			}
			if strings.Contains(string(out), "hunter2") {
				t.Errorf("%s shows the password: %s", command, out)
			}
		}
	}
}

// TestRedisMasterKey starts with another master key on a store in use.
func TestRedisMasterKey(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := harness.Site{Upstream: u.Addr, Store: r.Patient()}
	g := harness.StartGateway(t, s)
	key := g.NewKey(nil)
	stranger := harness.NewGateway(t, s)
	harness.WantStartError(t, stranger.RefusesToStart(), "master key does not open")
	harness.WantAccepted(t, g.Send(t, key.Get()))
	harness.WantAccepted(t, startSibling(g, s).Send(t, key.Get()))

	// A gateway that starts without Redis reports it when Redis is back.
	r.Kill()
	late := harness.NewGateway(t, s)
	late.StartNotReady()
	wantNotReady(t, late, "the store cannot answer")
	r.Start()
	wantNotReady(t, late, "master key does not open")
	wantUnavailable(t, late.Send(t, key.Get()))
}
