package redis

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestRestoreFromRDB follows the runbook of CardGatewayRecordForged: records are lost in
// every way, and are put back from an RDB file that is older than the nonces. No
// request that was accepted is accepted again, and new ones are.
func TestRestoreFromRDB(t *testing.T) {
	t.Parallel()
	u, r := harness.StartUpstream(t), harness.StartRedis(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: r.Patient()})
	lose := map[string]func(name string){
		"cut off":         func(name string) { r.Do("hset", name, "doc", `{"id":`, "rev", "r1") },
		"of a wrong type": func(name string) { r.Do("set", name, "x") },
		"removed":         func(name string) { r.Do("del", name) },
		"forged":          func(name string) { r.Do("hset", name, "doc", `{"id":"`+keyOf(name)+`","scopes":["*"]}`, "rev", "r1") },
	}
	lost := make(map[string]harness.Credentials)
	for how := range lose {
		lost[how] = g.NewKey(granted())
		harness.WantAccepted(t, g.Send(t, lost[how].Get()))
	}
	whole := g.NewKey(granted())
	from := rdbCopy(t, g, r)

	accepted := make(map[string][]*harness.Request)
	for how, key := range lost {
		for i := range 10 {
			request := key.RequestAt(time.Now().Add(time.Duration(i-5)*time.Second), http.MethodGet, "/api/v1/cards/c1", "")
			harness.WantAccepted(t, g.Send(t, request))
			accepted[how] = append(accepted[how], request)
		}
		lose[how]("cg:{" + key.ID + "}:k")
		wantRestored(t, g, key, from)
	}
	restored := time.Now()
	u.Took()
	for how, requests := range accepted {
		for _, request := range requests {
			if answer := g.Send(t, request); answer.Status == http.StatusOK {
				t.Errorf("%s: a request was accepted again", how)
			}
		}
		harness.WantUnderFloor(t, g.Send(t, lost[how].Get()))
	}
	u.None(t)
	for _, key := range lost {
		harness.WantAccepted(t, g.Send(t, key.RequestAt(restored.Add(8*time.Second), http.MethodGet, "/api/v1/cards/c1", "")))
	}
	wantNotRestored(t, g, whole, from)
	if out, err := cardKeys(g, "list"); err != nil || strings.Contains(out, "unreadable") || strings.Contains(out, "forged") {
		t.Errorf("%v: %s", err, out)
	}
}

func keyOf(name string) string {
	_, id, _ := strings.Cut(name, "{")
	id, _, _ = strings.Cut(id, "}")
	return id
}

// rdbCopy starts another Redis with the content that the server has now, and returns
// the path of a configuration that names it.
func rdbCopy(t testing.TB, g *harness.Gateway, r *harness.RedisServer) string {
	t.Helper()
	r.Do("save")
	content, err := os.ReadFile(filepath.Join(r.Dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	backup := harness.NewRedis(t)
	if err := os.WriteFile(filepath.Join(backup.Dir, "dump.rdb"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	backup.Start()
	backup.Do("del", "cg:index", "cg:servers", "cg:m:id_key") // as in the file of one master of a cluster
	g.WriteFile("Caddyfile.backup", "{\n\tcard_gateway {\n\t\tstore redis "+backup.URL()+"\n\t}\n}\n")
	return g.Path("Caddyfile.backup")
}

// wantRestored puts a record back: only once it is approved.
func wantRestored(t testing.TB, g *harness.Gateway, key harness.Credentials, from string) {
	t.Helper()
	if out, err := cardKeys(g, "restore", key.ID, "--from", from); err == nil || !strings.Contains(out, "nothing was restored") || !strings.Contains(out, "cards:read") {
		t.Errorf("without approval: %v, %s", err, out)
	}
	if out, err := cardKeys(g, "restore", key.ID, "--from", from, "--dry-run"); err != nil || !strings.Contains(out, "cards:read") {
		t.Errorf("a dry run: %v, %s", err, out)
	}
	if g.Send(t, key.Get()).Status == http.StatusOK {
		t.Error("the record was put back without approval")
	}
	out, err := cardKeys(g, "restore", key.ID, "--from", from, "--yes")
	if err != nil || !strings.Contains(out, "active") || strings.Contains(out, key.Secret) {
		t.Fatalf("%v: %s", err, out)
	}
	g.Logged("default.log", `"logger":"card_gateway.audit"`, `"result":"ok"`, `"action":"restore"`, `"key_id":"`+key.ID+`"`)
}

// wantNotRestored requires that the record of a key that is right is not replaced: an
// older one could enable it again.
func wantNotRestored(t testing.TB, g *harness.Gateway, key harness.Credentials, from string) {
	t.Helper()
	g.Do(key, "disable")
	if out, err := cardKeys(g, "restore", key.ID, "--from", from, "--yes"); err == nil || !strings.Contains(out, "delete the key first") {
		t.Errorf("a record that is right: %v, %s", err, out)
	}
	harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
}

// TestRestoreFromKeyFile puts a key back that was deleted by mistake, from a copy of the
// key file. The embedded store still knows its nonces, so new requests are served at once.
func TestRestoreFromKeyFile(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(granted())
	backup := t.TempDir()
	if err := os.WriteFile(filepath.Join(backup, "keys.json"), []byte(g.ReadFile("data/keys.json")), 0o600); err != nil {
		t.Fatal(err)
	}
	request := key.Get()
	harness.WantAccepted(t, g.Send(t, request))
	if out, err := cardKeys(g, "delete", key.ID, "--yes"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := cardKeys(g, "restore", key.ID, backup, "--yes"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	harness.WantUnauthorized(t, g.Send(t, request), harness.Replayed)
	harness.WantAccepted(t, g.Send(t, key.Get()))
}
