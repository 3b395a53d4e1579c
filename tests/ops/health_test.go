package ops

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/tests/harness"
)

// losesStore replaces the gateway's store by one that does not answer, and then
// restores the old one. Meanwhile the process lives, and reports why it is not
// ready.
func losesStore(t testing.TB, g *harness.Gateway) {
	t.Helper()
	key := g.NewKey(nil)
	before := g.Scrape(t)
	own := g.Caddyfile()
	g.ReloadText(t, strings.Replace(own, "store file "+g.Path("data"), "store redis redis://"+harness.FreeAddress(t), 1))

	ready := g.Send(t, &harness.Request{Method: "GET", Target: "/readyz"})
	var body struct{ Status, Reason string }
	if err := json.Unmarshal([]byte(ready.Body), &body); err != nil || ready.Status != http.StatusServiceUnavailable {
		t.Errorf("/readyz without a store is answered %s, want 503 (%v)", ready, err)
	}
	if body.Status != "not ready" || !strings.Contains(body.Reason, "the store cannot answer") || strings.Contains(strings.TrimSpace(ready.Body), "\n") {
		t.Errorf("/readyz says %s, want one line with the reason", ready)
	}
	live := g.Send(t, &harness.Request{Method: "GET", Target: "/livez"})
	if live.Status != http.StatusOK || strings.TrimSpace(live.Body) != `{"status":"live"}` {
		t.Errorf("/livez without a store is answered %s", live)
	}
	r := key.Get().Set("X-Request-Id", "no-store")
	got := g.Send(t, r)
	harness.WantRefused(t, got, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if got.Header.Get("Retry-After") == "" {
		t.Errorf("%s has no Retry-After", got)
	}
	line := g.Logged("default.log", `"logger":"card_gateway.refusals"`, `"request_id":"no-store"`)
	for _, fact := range []string{`"level":"error"`, `"reason":"store_unavailable"`, `"error":"`} {
		if !strings.Contains(line, fact) {
			t.Errorf("the line of the refusal does not say %s: %s", fact, line)
		}
	}
	g.Logged("access.log", `"request_id":"no-store","outcome":"store_unavailable"`)
	g.WantCounted(t, before, harness.Samples{harness.RequestSeries("get_card", "store_unavailable"): 1})
	if up := g.Scrape(t)["card_gateway_store_up"]; up != 0 {
		t.Errorf("card_gateway_store_up is %v without a store", up)
	}

	g.ReloadText(t, own)
	harness.WantAccepted(t, g.Send(t, key.Get()))
	if ready := g.Send(t, &harness.Request{Method: "GET", Target: "/readyz"}); ready.Status != http.StatusOK {
		t.Errorf("/readyz with a store again is answered %s", ready)
	}
	if up := g.Scrape(t)["card_gateway_store_up"]; up != 1 {
		t.Errorf("card_gateway_store_up is %v with a store", up)
	}
}

// losesNonces removes the journal between two runs of the gateway. Requests that
// are stamped before the new run or shortly after get 503, and pass when they are
// signed again.
func losesNonces(t testing.TB, g *harness.Gateway) {
	t.Helper()
	key := g.NewKey(nil)
	g.Kill()
	if err := os.RemoveAll(filepath.Join(g.Path("data"), "journal")); err != nil {
		t.Fatal(err)
	}
	g.Start()
	before, r := g.Scrape(t), key.Get().Set("X-Request-Id", "no-nonces")
	got := g.Send(t, r)
	harness.WantUnderFloor(t, got)
	wantTold(g, r, auth.ReplayFloor, `"failures":0`, "may have lost the nonces")
	g.WantCounted(t, before, harness.Samples{harness.RequestSeries("get_card", "replay_floor"): 1})
	harness.WantAccepted(t, g.Send(t, key.RequestAt(time.Now().Add(10*time.Second), http.MethodGet, "/api/v1/cards/c1", "")))
}
