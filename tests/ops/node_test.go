package ops

import (
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// node runs a command of card-node.
func node(t *testing.T, g *harness.Gateway, args ...string) {
	t.Helper()
	args = append([]string{"card-node"}, args...)
	if out, err := g.Command(append(args, "--address", "unix/"+g.Path("admin.sock"))...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// TestDrain takes a gateway out of service: at once, also over a reload, while
// requests are served.
func TestDrain(t *testing.T) {
	t.Parallel()
	g := withAudit(t, harness.Site{})
	key := g.NewKey(nil)
	ready := func(want int) {
		t.Helper()
		answer, err := g.Try(&harness.Request{Method: http.MethodGet, Target: "/readyz"})
		if err != nil || answer.Status != want {
			t.Errorf("ready: %v, %v; want %d", answer, err, want)
		}
		if out, code := cardStatus(t, g); (code == 0) != (want == http.StatusOK) {
			t.Errorf("card-status: %d %s", code, out)
		}
	}
	ready(http.StatusOK)
	node(t, g, "drain")
	ready(http.StatusServiceUnavailable)
	harness.WantAccepted(t, g.Send(t, key.Get()))
	s := g.Site
	s.Global += "\nlock_after 9"
	g.Reload(s)
	ready(http.StatusServiceUnavailable)
	node(t, g, "undrain")
	ready(http.StatusOK)
	forgotten := func(want float64) {
		t.Helper()
		cardStatus(t, g) // sets the gauges
		if got := g.Scrape(t)[`card_gateway_degraded{what="drained"}`]; got != want {
			t.Errorf("drained counts as forgotten: %v, want %v", got, want)
		}
	}
	forgotten(0)
	node(t, g, "drain", "--for", "1h")
	ready(http.StatusServiceUnavailable)
	if out, _ := cardStatus(t, g, "--verbose"); !strings.Contains(out, "drained until 2") {
		t.Errorf("card-status does not show how long the gateway is drained:\n%s", out)
	}
	forgotten(0)
	node(t, g, "drain")
	forgotten(1)
	node(t, g, "undrain")
	forgotten(0)
	g.Logged("audit.log", `"action":"drain"`, `"result":"ok"`)
	g.Logged("audit.log", `"action":"undrain"`, `"result":"ok"`)
}

// TestLogLevel has a line for each request while an operator wants it.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	g := withAudit(t, harness.Site{})
	key := g.NewKey(nil)
	const accepted = `"msg":"request accepted"`
	harness.WantAccepted(t, g.Send(t, key.Get()))
	node(t, g, "log-level", "debug", "--for", "1h")
	harness.WantAccepted(t, g.Send(t, key.Get()))
	for range 60 {
		harness.WantUnauthorized(t, g.Send(t, harness.Credentials{ID: "nobody", Secret: "x"}.Get()), harness.UnknownKey)
	}
	node(t, g, "log-level", "info")
	harness.WantAccepted(t, g.Send(t, key.Get()))
	g.Logged("default.log", accepted, `"key_id":"`+key.ID+`"`, `"operation":"get_card"`)
	text := g.ReadFile("default.log")
	if n := strings.Count(text, accepted); n != 1 {
		t.Errorf("%d of three accepted requests have a line, want the one in between", n)
	}
	if n := strings.Count(text, `"msg":"request refused: unknown_key"`); n != 60 {
		t.Errorf("%d of 60 refusals have a line", n)
	}
}
