package tests

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// cardKeys runs the command card-keys against the gateway.
func cardKeys(g *Gateway, args ...string) (out string, err error) {
	g.T.Helper()
	args = append([]string{"card-keys"}, append(args, "--address", "unix/"+g.Path("admin.sock"))...)
	text, err := g.Command(args...).CombinedOutput()
	return string(text), err
}

// TestCopyToRedis moves the keys of a gateway with an embedded store to two
// gateways on Redis.
func TestCopyToRedis(t *testing.T) {
	t.Parallel()
	u := StartUpstream(t)
	old := StartGateway(t, Site{Upstream: u.Addr})
	key, locked, disabled := old.NewKey(nil), old.NewKey(nil), old.NewKey(nil)
	guarded := old.NewKey(Fields{"allowed_ips": []string{"203.0.113.7"}, "limits": Fields{"get_card": "1/1d"}})
	legacy := old.ImportKey(Credentials{"legacy-7731", "a secret of sixteen bytes or more"}, nil)
	rotated := Credentials{key.ID, old.Do(key, "rotate").Secret}
	for range 50 {
		WantUnauthorized(t, old.Send(t, locked.Get().Forge()), WrongSignature)
	}
	WantUnauthorized(t, old.Send(t, locked.Get()), KeyLocked)
	WantUnauthorized(t, old.Send(t, key.Get().Forge()), WrongSignature)
	old.Do(disabled, "disable")
	var before []*Request
	for _, c := range []Credentials{key, rotated, legacy} {
		for _, ahead := range []time.Duration{-200 * time.Second, 0, 4 * time.Second} {
			r := c.RequestAt(time.Now().Add(ahead), http.MethodGet, "/api/v1/cards/c1", "")
			WantAccepted(t, old.Send(t, r))
			before = append(before, r)
		}
	}

	s := Site{Upstream: u.Addr, Store: patient(StartRedis(t))}
	a := NewGateway(t, s)
	a.WriteFile("master.key", old.ReadFile("master.key"))
	a.Start()
	b := startSibling(a, s)
	if out, err := cardKeys(a, "copy", old.Path("data")); err == nil || !strings.Contains(out, "another process") {
		t.Errorf("copying from a gateway that runs: %v, %s", err, out)
	}
	old.Stop()
	stranger := StartGateway(t, Site{Upstream: u.Addr, Store: strings.Replace(s.Store, "}", "prefix another:\n}", 1)})
	if out, err := cardKeys(stranger, "copy", old.Path("data")); err == nil || !strings.Contains(out, "master key") {
		t.Errorf("copying with another master key: %v, %s", err, out)
	}
	if out, err := cardKeys(a, "copy", old.Path("data")); err != nil || !strings.Contains(out, "copied 5 keys") {
		t.Fatalf("copying: %v, %s", err, out)
	}
	copied := time.Now()
	u.Took()
	for _, r := range before {
		WantUnauthorized(t, a.Send(t, r), OutsideWindow)
		WantUnauthorized(t, b.Send(t, r), OutsideWindow)
	}
	u.None(t)
	later := func(c Credentials) *Request {
		return c.RequestAt(copied.Add(8*time.Second), http.MethodGet, "/api/v1/cards/c1", "")
	}
	for _, g := range []*Gateway{b, a} {
		for _, c := range []Credentials{key, rotated, legacy} {
			WantAccepted(t, g.Send(t, later(c)))
		}
		WantUnauthorized(t, g.Send(t, later(locked)), KeyDisabled)
		WantUnauthorized(t, g.Send(t, later(disabled)), KeyDisabled)
		WantUnauthorized(t, g.Send(t, later(guarded)), IpNotAllowed)
	}
	if view := b.Show(locked); view.Status != "locked" || !strings.Contains(string(view.Lock), `"failures":50`) {
		t.Errorf("the locked key is %s with the lock %s", view.Status, view.Lock)
	}
	b.WantFailures(t, key, 0)
	if out, err := cardKeys(b, "copy", old.Path("data")); err == nil || !strings.Contains(out, "copied 0 keys") || !strings.Contains(out, "skipped "+key.ID) {
		t.Errorf("copying again: %v, %s", err, out)
	}
	b.Do(locked, "unlock")
	WantAccepted(t, a.Send(t, later(locked)))
}
