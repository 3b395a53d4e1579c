package ops

import (
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestAdminSocketIsLost: a gateway whose admin socket another process has taken says
// so, and a reload is no such case.
func TestAdminSocketIsLost(t *testing.T) {
	t.Parallel()
	const lost = `card_gateway_degraded{what="admin"}`
	g := harness.StartGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	wantGauge(t, g, lost, 0)
	s := g.Site
	s.Auth = "dry_run"
	g.Reload(s)
	wantGauge(t, g, "card_gateway_dry_run", 1)
	wantGauge(t, g, lost, 0)

	second := g.Command("run", "--config", g.Path("Caddyfile"), "--adapter", "caddyfile")
	if out, err := second.CombinedOutput(); err == nil {
		t.Fatalf("two gateways run on one store:\n%s", out)
	}
	wantGauge(t, g, lost, 1)
	g.Logged("default.log", "has taken the admin socket", "restart it", g.Path("admin.sock"))
	g.Stop()
	g.Start()
	wantGauge(t, g, lost, 0)
}
