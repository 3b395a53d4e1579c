package tests

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// startsNotReady runs the gateway until it serves, although it is not ready.
func (g *gateway) startsNotReady() {
	g.t.Helper()
	g.addr = freeAddress(g.t)
	g.run()
	eventually(g.t, "the gateway lives", func() bool {
		answer, err := g.try(&request{method: "GET", target: "/livez"})
		return err == nil && answer.status == http.StatusOK && g.configured()
	})
}

// TestRedisDownAtStart starts a gateway while Redis is out of reach, on a
// store that is new and on one that is in use.
func TestRedisDownAtStart(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	r := newRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := outageSite(u, r)
	g := newGateway(t, s)
	g.startsNotReady()
	stranger := credentials{"ck_live_abcdefghijklmnopqrstuvwxyz234567", "secret of nobody"}
	down := func(c credentials) {
		t.Helper()
		wantNotReady(t, g, "the store cannot answer")
		wantUnavailable(t, g.send(t, c.get()))
		wantUnavailable(t, g.send(t, c.post().forge()))
		if status, answer := g.admin(http.MethodPost, "/card-gateway/keys", "application/json", jsonText(t, withDefaults(nil))); status != http.StatusServiceUnavailable {
			t.Errorf("making a key is answered %d %s, want 503", status, answer)
		}
	}
	down(stranger)
	r.start()
	back := time.Now()
	if !g.becomesReady() {
		t.Fatal("the gateway does not become ready")
	}
	key := g.newKey(nil)
	eventually(t, "requests are accepted", func() bool { return g.send(t, key.get()).status == http.StatusOK })
	if took := time.Since(back); took > recoversWithin {
		t.Errorf("the gateway recovered after %v, want within %v", took, recoversWithin)
	}
	unauthorized(t, g.send(t, stranger.get()), unknownKey)
	first := key.get()
	accepted(t, g.send(t, first))

	g.kill()
	r.kill()
	u.took()
	g.startsNotReady()
	down(key) // which nobody can know now
	r.start()
	eventually(t, "requests are accepted", func() bool {
		answer := g.send(t, key.get())
		if answer.status != http.StatusOK {
			underFloor(t, answer) // the replay floor: another run of Redis
		}
		return t.Failed() || answer.status == http.StatusOK
	})
	underFloor(t, g.send(t, first))
}

// TestRedisUnfit starts on servers that can be reached and must not be used.
func TestRedisUnfit(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	fit := startRedisTCP(t)
	_, port, _ := strings.Cut(fit.addr, ":")
	const password = "hunter2-and-more"
	locked := startRedis(t)
	locked.do("config", "set", "requirepass", "another")
	for name, c := range map[string]struct {
		store string
		says  []string
	}{
		"evicts":           {"redis " + startRedis(t, "--maxmemory-policy", "allkeys-lru").url(), []string{"allkeys-lru", "noeviction"}},
		"is a replica":     {"redis " + startRedis(t, "--replicaof", "127.0.0.1 "+port).url(), []string{"replica", "master"}},
		"wants another":    {"redis " + locked.url() + " password file {$HOME}/password", []string{"username, password"}},
		"wants a password": {"redis " + locked.url(), []string{"username, password"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, site{upstream: u.addr, store: c.store})
			g.write("password", password+"\n")
			said := g.refusesToStart()
			oneLine(t, said, c.says...)
			if strings.Contains(said, password) {
				t.Errorf("the gateway shows the password:\n%s", said)
			}
		})
	}
}

// TestRedisPasswordIsAReference refuses a password where Caddy would show it.
func TestRedisPasswordIsAReference(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	for _, store := range []string{
		"redis redis://user:hunter2@127.0.0.1:6379/0",
		"redis rediss://:hunter2@127.0.0.1:6379",
		"redis unix://user:hunter2@/run/redis.sock",
	} {
		g := newGateway(t, site{upstream: u.addr, store: store})
		g.addr = freeAddress(t)
		g.write("Caddyfile", g.caddyfile())
		for _, command := range []string{"adapt", "validate", "run"} {
			out, err := g.command(command, "--adapter", "caddyfile", "--config", g.path("Caddyfile")).CombinedOutput()
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
	u := startUpstream(t)
	r := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := site{upstream: u.addr, store: "redis " + r.url()}
	g := startGateway(t, s)
	key := g.newKey(nil)
	stranger := newGateway(t, s)
	oneLine(t, stranger.refusesToStart(), "master key does not open")
	accepted(t, g.send(t, key.get()))
	accepted(t, g.startSibling(s).send(t, key.get()))

	// One that could not see it when it started says so when it can.
	r.kill()
	late := newGateway(t, s)
	late.startsNotReady()
	wantNotReady(t, late, "the store cannot answer")
	r.start()
	wantNotReady(t, late, "master key does not open")
	wantUnavailable(t, late.send(t, key.get()))
}
