package redis

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestCopyFromRedis moves the keys of a gateway on Redis to another Redis, and from
// there into an embedded store, by the configurations that name the stores.
func TestCopyFromRedis(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	next := func(before *harness.Gateway, s harness.Site) *harness.Gateway {
		t.Helper()
		before.WriteFile("Caddyfile.before", before.Caddyfile())
		before.Stop()
		g := harness.NewGateway(t, s)
		g.WriteFile("master.key", before.ReadFile("master.key"))
		g.Start()
		out, err := cardKeys(g, "copy", "--from", before.Path("Caddyfile.before"))
		if err != nil || !strings.Contains(out, "copied 2 keys") {
			t.Fatalf("copying: %v, %s", err, out)
		}
		return g
	}
	first := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: harness.StartRedis(t).Patient()})
	key, disabled := first.NewKey(nil), first.NewKey(nil)
	first.Do(disabled, "disable")
	r := key.Get()
	harness.WantAccepted(t, first.Send(t, r))

	second := next(first, harness.Site{Upstream: u.Addr, Store: harness.StartRedis(t).Patient()})
	third := next(second, harness.Site{Upstream: u.Addr})
	later := func(c harness.Credentials) *harness.Request {
		return c.RequestAt(time.Now().Add(20*time.Second), http.MethodGet, "/api/v1/cards/c1", "")
	}
	harness.WantUnauthorized(t, third.Send(t, r), harness.OutsideWindow)
	harness.WantAccepted(t, third.Send(t, later(key)))
	harness.WantUnauthorized(t, third.Send(t, later(disabled)), harness.KeyDisabled)

	third.WriteFile("Caddyfile.own", third.Caddyfile())
	if out, err := cardKeys(third, "copy", "--from", third.Path("Caddyfile.own")); err == nil || !strings.Contains(out, "of the running gateway itself") {
		t.Errorf("copying from itself: %v, %s", err, out)
	}
}
