package redis

import (
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestDamagedInRedis: records that cannot be read cost only themselves. The gateway
// starts and serves the other keys; operators see all keys, which are damaged and
// what to do; and nothing of a record is shown.
func TestDamagedInRedis(t *testing.T) {
	t.Parallel()
	const canary = "Q0FOQVJZ"
	u, r := harness.StartUpstream(t), harness.StartRedis(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: r.Patient()})
	whole := g.NewKey(granted())
	damaged := make(map[string]harness.Credentials)
	for field, values := range map[string][2]string{
		"document": {"doc", `{"secrets":[{"sealed":"` + canary},
		"id":       {"doc", `{"id":"` + canary + `"}`},
		"failures": {"fails", canary},
		"lock":     {"lock", canary},
	} {
		key := g.NewKey(granted())
		r.Do("hset", "cg:{"+key.ID+"}:k", values[0], values[1], "rev", "r1")
		damaged[field] = key
	}
	for range 2 {
		harness.WantAccepted(t, g.Send(t, whole.Get()))
		for field, key := range damaged {
			wantDamaged(t, g, key, field)
		}
		wantListed(t, g, whole, damaged)
		g.Stop()
		g.Start()
	}
	if strings.Contains(g.ReadFile("default.log"), canary) {
		t.Error("the log has a part of a record")
	}
	for _, key := range damaged {
		if out, err := cardKeys(g, "delete", key.ID, "--yes"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		harness.WantRefused(t, g.Send(t, key.Get()), http.StatusUnauthorized, "UNAUTHORIZED")
	}
	if out, err := cardKeys(g, "list"); err != nil || strings.Contains(out, "unreadable") || !strings.Contains(out, whole.ID) {
		t.Errorf("%v: %s", err, out)
	}
}

// wantDamaged requires that requests are answered with 503, and that log and admin API
// name the key, the field and the remedy.
func wantDamaged(t testing.TB, g *harness.Gateway, key harness.Credentials, field string) {
	t.Helper()
	harness.WantRefused(t, g.Send(t, key.Get()), http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	g.Logged("default.log", `"level":"error"`, `"key_id":"`+key.ID+`"`, `"field":"`+field+`"`, "cannot be read", "restore it")
	if status, view := g.Admin(http.MethodGet, "/card-gateway/keys/"+key.ID, "", ""); status != http.StatusOK || !strings.Contains(view, `"state":"refused","field":"`+field+`"`) {
		t.Errorf("%s: %d, %s", field, status, view)
	}
	if status, answer := g.Admin(http.MethodPost, "/card-gateway/keys/"+key.ID+"/disable", "", ""); status != http.StatusConflict || !strings.Contains(answer, "delete the key") {
		t.Errorf("%s: a change is answered with %d, %s", field, status, answer)
	}
}

// wantListed requires that the list and the status have all keys.
func wantListed(t testing.TB, g *harness.Gateway, whole harness.Credentials, damaged map[string]harness.Credentials) {
	t.Helper()
	out, err := cardKeys(g, "list", "--tenant", "nobody")
	if err != nil || strings.Contains(out, whole.ID) || strings.Count(out, "warning: ck_") != len(damaged) {
		t.Errorf("of another tenant: %v: %s", err, out)
	}
	if out, err = cardKeys(g, "list"); err != nil || !strings.Contains(out, whole.ID) {
		t.Errorf("%v: %s", err, out)
	}
	for field, key := range damaged {
		if !strings.Contains(out, "warning: "+key.ID+" is refused: "+field+": ") {
			t.Errorf("%s: %s", field, out)
		}
	}
	if code, out := g.Admin(http.MethodGet, "/card-gateway/status", "", ""); code != http.StatusOK || !strings.Contains(out, `"active":1,`) || !strings.Contains(out, `"unreadable":4`) {
		t.Errorf("%d: %s", code, out)
	}
}
