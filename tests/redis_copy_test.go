package tests

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// cardKeys runs the command card-keys against the gateway.
func (g *gateway) cardKeys(args ...string) (out string, err error) {
	g.t.Helper()
	args = append([]string{"card-keys"}, append(args, "--address", "unix/"+g.path("admin.sock"))...)
	text, err := g.command(args...).CombinedOutput()
	return string(text), err
}

// TestCopyToRedis moves the keys of a gateway with an embedded store to two
// gateways on Redis.
func TestCopyToRedis(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	old := startGateway(t, site{upstream: u.addr})
	key, locked, disabled := old.newKey(nil), old.newKey(nil), old.newKey(nil)
	guarded := old.newKey(fields{"allowed_ips": []string{"203.0.113.7"}, "limits": fields{"get_card": "1/1d"}})
	legacy := old.importKey(credentials{"legacy-7731", "a secret of sixteen bytes or more"}, nil)
	rotated := credentials{key.id, old.do(key, "rotate").Secret}
	for range 50 {
		unauthorized(t, old.send(t, locked.get().forge()), wrongSignature)
	}
	unauthorized(t, old.send(t, locked.get()), keyLocked)
	unauthorized(t, old.send(t, key.get().forge()), wrongSignature)
	old.do(disabled, "disable")
	var before []*request
	for _, c := range []credentials{key, rotated, legacy} {
		for _, ahead := range []time.Duration{-200 * time.Second, 0, 4 * time.Second} {
			r := c.requestAt(time.Now().Add(ahead), http.MethodGet, "/api/v1/cards/c1", "")
			accepted(t, old.send(t, r))
			before = append(before, r)
		}
	}

	s := site{upstream: u.addr, store: startRedis(t).patient()}
	a := newGateway(t, s)
	a.write("master.key", old.read("master.key"))
	a.start()
	b := a.startSibling(s)
	if out, err := a.cardKeys("copy", old.path("data")); err == nil || !strings.Contains(out, "another process") {
		t.Errorf("copying from a gateway that runs: %v, %s", err, out)
	}
	old.stop()
	stranger := startGateway(t, site{upstream: u.addr, store: strings.Replace(s.store, "}", "prefix another:\n}", 1)})
	if out, err := stranger.cardKeys("copy", old.path("data")); err == nil || !strings.Contains(out, "master key") {
		t.Errorf("copying with another master key: %v, %s", err, out)
	}
	if out, err := a.cardKeys("copy", old.path("data")); err != nil || !strings.Contains(out, "copied 5 keys") {
		t.Fatalf("copying: %v, %s", err, out)
	}
	copied := time.Now()
	u.took()
	for _, r := range before {
		unauthorized(t, a.send(t, r), outsideWindow)
		unauthorized(t, b.send(t, r), outsideWindow)
	}
	u.none(t)
	later := func(c credentials) *request {
		return c.requestAt(copied.Add(8*time.Second), http.MethodGet, "/api/v1/cards/c1", "")
	}
	for _, g := range []*gateway{b, a} {
		for _, c := range []credentials{key, rotated, legacy} {
			accepted(t, g.send(t, later(c)))
		}
		unauthorized(t, g.send(t, later(locked)), keyDisabled)
		unauthorized(t, g.send(t, later(disabled)), keyDisabled)
		unauthorized(t, g.send(t, later(guarded)), ipNotAllowed)
	}
	if view := b.show(locked); view.Status != "locked" || !strings.Contains(string(view.Lock), `"failures":50`) {
		t.Errorf("the locked key is %s with the lock %s", view.Status, view.Lock)
	}
	b.wantFailures(t, key, 0)
	if out, err := b.cardKeys("copy", old.path("data")); err == nil || !strings.Contains(out, "copied 0 keys") || !strings.Contains(out, "skipped "+key.id) {
		t.Errorf("copying again: %v, %s", err, out)
	}
	b.do(locked, "unlock")
	accepted(t, a.send(t, later(locked)))
}
