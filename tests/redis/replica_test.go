package redis

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestRedisReplicated tells with every change of a key whether a replica has
// it.
func TestRedisReplicated(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.StartRedisTCP(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: "redis " + r.URL(), Global: "replay_floor_ahead 1s"})
	key, changed := g.NewKey(nil), g.NewKey(nil)
	wantReplicated(t, g, changed, nil)

	_, port, _ := strings.Cut(r.Addr, ":")
	replica := harness.StartRedis(t, "--replicaof", "127.0.0.1 "+port)
	harness.Eventually(t, "the replica follows", func() bool {
		r.Do("incr", "written")
		n, _ := r.Do("wait", 1, 100).(int64)
		return n == 1
	})
	yes, no := true, false
	wantReplicated(t, g, changed, &yes)
	// The first replica begins a new replication history, so the replay floor
	// has risen.
	harness.Eventually(t, "requests are accepted", func() bool { return g.Send(t, key.Get()).Status == http.StatusOK })

	replica.Signal(syscall.SIGSTOP)
	wantReplicated(t, g, changed, &no)
	harness.WantAccepted(t, g.Send(t, key.Get())) // requests do not wait for it
	replica.Signal(syscall.SIGCONT)
	harness.Eventually(t, "a change is replicated again", func() bool {
		got := replicated(g, http.MethodPost, "/"+changed.ID+"/enable", "")
		return got != nil && *got
	})
}

// wantReplicated makes every kind of change.
func wantReplicated(t testing.TB, g *harness.Gateway, key harness.Credentials, want *bool) {
	t.Helper()
	text := func(b *bool) string { return harness.JSONText(t, b) }
	id := "gone-" + key.Get().Value("X-Nonce")
	for _, change := range []struct{ method, path, body string }{
		{http.MethodPost, "", harness.JSONText(t, harness.KeyFields(nil))},
		{http.MethodPost, "/import", harness.JSONText(t, harness.KeyFields(harness.Fields{"id": id, "secret": "the secret of " + id}))},
		{http.MethodDelete, "/" + id, ""},
		{http.MethodPatch, "/" + key.ID, `{"description":"changed"}`},
		{http.MethodPost, "/" + key.ID + "/disable", ""},
		{http.MethodPost, "/" + key.ID + "/enable", ""},
		{http.MethodPost, "/" + key.ID + "/unlock", ""},
		{http.MethodPost, "/" + key.ID + "/rotate", ""},
	} {
		if got := replicated(g, change.method, change.path, change.body); text(got) != text(want) {
			t.Errorf("%s %s answers replicated %s, want %s", change.method, change.path, text(got), text(want))
		}
	}
}

// replicated makes a change and returns what its answer says.
func replicated(g *harness.Gateway, method, path, body string) *bool {
	g.T.Helper()
	status, answer := g.Admin(method, "/card-gateway/keys"+path, "application/json", body)
	var view struct {
		Replicated *bool `json:"replicated"`
	}
	if err := json.Unmarshal([]byte(answer), &view); err != nil || status/100 != 2 {
		g.T.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return view.Replicated
}
