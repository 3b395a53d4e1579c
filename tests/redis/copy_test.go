package redis

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// cardKeys runs the command card-keys against the gateway.
func cardKeys(g *harness.Gateway, args ...string) (out string, err error) {
	g.T.Helper()
	args = append([]string{"card-keys"}, append(args, "--address", "unix/"+g.Path("admin.sock"))...)
	text, err := g.Command(args...).CombinedOutput()
	return string(text), err
}

// TestCopyToRedis moves the keys of a gateway with an embedded store to two
// gateways on Redis.
func TestCopyToRedis(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	old := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key, locked, disabled := old.NewKey(nil), old.NewKey(nil), old.NewKey(nil)
	guarded := old.NewKey(harness.Fields{"allowed_ips": []string{"203.0.113.7"}, "limits": harness.Fields{"get_card": "1/1d"}})
	legacy := old.ImportKey(harness.Credentials{ID: "legacy-7731", Secret: "a secret of sixteen bytes or more"}, nil)
	rotated := harness.Credentials{ID: key.ID, Secret: old.Do(key, "rotate").Secret}
	for range 50 {
		harness.WantUnauthorized(t, old.Send(t, locked.Get().Forge()), harness.WrongSignature)
	}
	harness.WantUnauthorized(t, old.Send(t, locked.Get()), harness.KeyLocked)
	harness.WantUnauthorized(t, old.Send(t, key.Get().Forge()), harness.WrongSignature)
	old.Do(disabled, "disable")
	var before []*harness.Request
	for _, c := range []harness.Credentials{key, rotated, legacy} {
		for _, ahead := range []time.Duration{-200 * time.Second, 0, 4 * time.Second} {
			r := c.RequestAt(time.Now().Add(ahead), http.MethodGet, "/api/v1/cards/c1", "")
			harness.WantAccepted(t, old.Send(t, r))
			before = append(before, r)
		}
	}

	s := harness.Site{Upstream: u.Addr, Store: harness.StartRedis(t).Patient()}
	a := harness.NewGateway(t, s)
	a.WriteFile("master.key", old.ReadFile("master.key"))
	a.Start()
	b := startSibling(a, s)
	if out, err := cardKeys(a, "copy", old.Path("data")); err == nil || !strings.Contains(out, "another process") {
		t.Errorf("copying from a gateway that runs: %v, %s", err, out)
	}
	old.Stop()
	stranger := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: strings.Replace(s.Store, "}", "prefix another:\n}", 1)})
	if out, err := cardKeys(stranger, "copy", old.Path("data")); err == nil || !strings.Contains(out, "master key") {
		t.Errorf("copying with another master key: %v, %s", err, out)
	}
	if out, err := cardKeys(a, "copy", old.Path("data")); err != nil || !strings.Contains(out, "copied 5 keys") {
		t.Fatalf("copying: %v, %s", err, out)
	}
	copied := time.Now()
	u.Took()
	for _, r := range before {
		harness.WantUnauthorized(t, a.Send(t, r), harness.OutsideWindow)
		harness.WantUnauthorized(t, b.Send(t, r), harness.OutsideWindow)
	}
	u.None(t)
	later := func(c harness.Credentials) *harness.Request {
		return c.RequestAt(copied.Add(8*time.Second), http.MethodGet, "/api/v1/cards/c1", "")
	}
	for _, g := range []*harness.Gateway{b, a} {
		for _, c := range []harness.Credentials{key, rotated, legacy} {
			harness.WantAccepted(t, g.Send(t, later(c)))
		}
		harness.WantUnauthorized(t, g.Send(t, later(locked)), harness.KeyDisabled)
		harness.WantUnauthorized(t, g.Send(t, later(disabled)), harness.KeyDisabled)
		harness.WantUnauthorized(t, g.Send(t, later(guarded)), harness.IPNotAllowed)
	}
	if view := b.Show(locked); view.Status != "locked" || !strings.Contains(string(view.Lock), `"failures":50`) {
		t.Errorf("the locked key is %s with the lock %s", view.Status, view.Lock)
	}
	b.WantFailures(t, key, 0)
	if out, err := cardKeys(b, "copy", old.Path("data")); err != nil || !strings.Contains(out, "copied 0 keys") || !strings.Contains(out, "skipped "+key.ID) {
		t.Errorf("copying again: %v, %s", err, out)
	}
	b.Do(locked, "unlock")
	harness.WantAccepted(t, a.Send(t, later(locked)))
}
