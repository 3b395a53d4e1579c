package tests

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// TestRedisReplicated tells with every change of a key whether a replica has
// it.
func TestRedisReplicated(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	r := startRedisTCP(t)
	g := startGateway(t, site{upstream: u.addr, store: "redis " + r.url(), global: "replay_floor_ahead 1s"})
	key, changed := g.newKey(nil), g.newKey(nil)
	g.wantReplicated(t, changed, nil)

	_, port, _ := strings.Cut(r.addr, ":")
	replica := startRedis(t, "--replicaof", "127.0.0.1 "+port)
	eventually(t, "the replica follows", func() bool {
		r.do("incr", "written")
		n, _ := r.do("wait", 1, 100).(int64)
		return n == 1
	})
	yes, no := true, false
	g.wantReplicated(t, changed, &yes)
	// The first replica begins a new replication history, so the replay floor
	// has risen.
	eventually(t, "requests are accepted", func() bool { return g.send(t, key.get()).status == http.StatusOK })

	replica.signal(syscall.SIGSTOP)
	g.wantReplicated(t, changed, &no)
	accepted(t, g.send(t, key.get())) // requests do not wait for it
	replica.signal(syscall.SIGCONT)
	eventually(t, "a change is replicated again", func() bool {
		got := g.replicated(t, http.MethodPost, "/"+changed.id+"/enable", "")
		return got != nil && *got
	})
}

// wantReplicated makes every kind of change.
func (g *gateway) wantReplicated(t testing.TB, key credentials, want *bool) {
	t.Helper()
	text := func(b *bool) string { return jsonText(t, b) }
	id := "gone-" + key.get().value("X-Nonce")
	for _, change := range []struct{ method, path, body string }{
		{http.MethodPost, "", jsonText(t, withDefaults(nil))},
		{http.MethodPost, "/import", jsonText(t, withDefaults(fields{"id": id, "secret": "the secret of " + id}))},
		{http.MethodDelete, "/" + id, ""},
		{http.MethodPatch, "/" + key.id, `{"description":"changed"}`},
		{http.MethodPost, "/" + key.id + "/disable", ""},
		{http.MethodPost, "/" + key.id + "/enable", ""},
		{http.MethodPost, "/" + key.id + "/unlock", ""},
		{http.MethodPost, "/" + key.id + "/rotate", ""},
	} {
		if got := g.replicated(t, change.method, change.path, change.body); text(got) != text(want) {
			t.Errorf("%s %s answers replicated %s, want %s", change.method, change.path, text(got), text(want))
		}
	}
}

// replicated makes a change and returns what its answer says.
func (g *gateway) replicated(t testing.TB, method, path, body string) *bool {
	t.Helper()
	status, answer := g.admin(method, "/card-gateway/keys"+path, "application/json", body)
	var view struct {
		Replicated *bool `json:"replicated"`
	}
	if err := json.Unmarshal([]byte(answer), &view); err != nil || status/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return view.Replicated
}
