package ops

import (
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// wantGauge waits until the gateway reports the value.
func wantGauge(t testing.TB, g *harness.Gateway, series string, want float64) {
	t.Helper()
	var got float64
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if got = g.Scrape(t)[series]; got == want {
			return
		}
	}
	t.Errorf("%s is %v, want %v", series, got, want)
}

// TestStatesOfTheConfiguration: gauges show whether a dry run is on, and whether
// the last configuration was refused, and end with it.
func TestStatesOfTheConfiguration(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	const refused, dryRun = `card_gateway_degraded{what="config"}`, "card_gateway_dry_run"
	wantGauge(t, g, dryRun, 0)
	s := g.Site
	s.Auth = "dry_run"
	g.Reload(s)
	wantGauge(t, g, dryRun, 1)
	bad := g.Site
	bad.Global += "\nwindow 1ns"
	if err := g.TryReload(bad); err == nil {
		t.Fatal("a configuration with a fault is loaded")
	}
	wantGauge(t, g, refused, 1)
	wantGauge(t, g, dryRun, 1)
	s.Auth = ""
	g.Reload(s)
	wantGauge(t, g, dryRun, 0)
	wantGauge(t, g, refused, 0)
}

// TestReplaysAreNoClocks: a recorded request grows old, and its age is not taken for
// the skew of a clock.
func TestReplaysAreNoClocks(t *testing.T) {
	t.Parallel()
	g := harness.StartGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	recorded := g.NewKey(nil).Get()
	harness.WantAccepted(t, g.Send(t, recorded))
	for range 3 {
		harness.WantUnauthorized(t, g.Send(t, recorded), harness.Replayed)
	}
	if got := g.Scrape(t)["card_gateway_clock_skew_seconds_count"]; got != 1 {
		t.Errorf("the clocks of %v requests are counted, want that of the one that was not a replay", got)
	}
}
