package tests

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// reloadText puts a Caddyfile into the running process that the site cannot
// describe.
func (g *gateway) reloadText(t testing.TB, caddyfile string) {
	t.Helper()
	if status, answer := g.admin(http.MethodPost, "/load", "text/caddyfile", caddyfile); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, answer)
	}
	g.tookOver()
}

// losesNonces takes the journal away between two runs of the gateway. What is
// stamped before the new run and shortly after is nobody's fault, and sent anew
// it passes.
func (g *gateway) losesNonces(t testing.TB) {
	t.Helper()
	key := g.newKey(nil)
	g.kill()
	if err := os.RemoveAll(filepath.Join(g.path("data"), "journal")); err != nil {
		t.Fatal(err)
	}
	g.start()
	before, r := g.scrape(t), key.get().set("X-Request-Id", "no-nonces")
	got := g.send(t, r)
	underFloor(t, got)
	g.wantTold(t, r, auth.ReplayFloor, `"failures":0`, "may have lost the nonces")
	g.wantCounted(t, before, samples{requestSeries("get_card", "replay_floor"): 1})
	accepted(t, g.send(t, key.requestAt(time.Now().Add(10*time.Second), http.MethodGet, "/api/v1/cards/c1", "")))
}

// losesStore puts a store in the place of the gateway's that nobody answers
// for, and then the old one again. Meanwhile the process lives, and says why it
// is not ready.
func (g *gateway) losesStore(t testing.TB) {
	t.Helper()
	key := g.newKey(nil)
	before := g.scrape(t)
	own := g.caddyfile()
	g.reloadText(t, strings.Replace(own, "store file "+g.path("data"), "store redis redis://"+freeAddress(t), 1))

	ready := g.send(t, &request{method: "GET", target: "/readyz"})
	var body struct{ Status, Reason string }
	if err := json.Unmarshal([]byte(ready.body), &body); err != nil || ready.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz without a store is answered %s, want 503 (%v)", ready, err)
	}
	if body.Status != "not ready" || !strings.Contains(body.Reason, "the store cannot answer") || strings.Contains(strings.TrimSpace(ready.body), "\n") {
		t.Errorf("/readyz says %s, want one line with the reason", ready)
	}
	live := g.send(t, &request{method: "GET", target: "/livez"})
	if live.status != http.StatusOK || strings.TrimSpace(live.body) != `{"status":"live"}` {
		t.Errorf("/livez without a store is answered %s", live)
	}
	r := key.get().set("X-Request-Id", "no-store")
	got := g.send(t, r)
	refused(t, got, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if got.header.Get("Retry-After") == "" {
		t.Errorf("%s has no Retry-After", got)
	}
	line := g.logged("default.log", `"logger":"card_gateway.refusals"`, `"request_id":"no-store"`)
	for _, fact := range []string{`"level":"error"`, `"reason":"store_unavailable"`, `"error":"`} {
		if !strings.Contains(line, fact) {
			t.Errorf("the line of the refusal does not say %s: %s", fact, line)
		}
	}
	g.logged("access.log", `"request_id":"no-store","outcome":"store_unavailable"`)
	g.wantCounted(t, before, samples{requestSeries("get_card", "store_unavailable"): 1})
	if up := g.scrape(t)["card_gateway_store_up"]; up != 0 {
		t.Errorf("card_gateway_store_up is %v without a store", up)
	}

	g.reloadText(t, own)
	accepted(t, g.send(t, key.get()))
	if ready := g.send(t, &request{method: "GET", target: "/readyz"}); ready.status != http.StatusOK {
		t.Errorf("/readyz with a store again is answered %s", ready)
	}
	if up := g.scrape(t)["card_gateway_store_up"]; up != 1 {
		t.Errorf("card_gateway_store_up is %v with a store", up)
	}
}
