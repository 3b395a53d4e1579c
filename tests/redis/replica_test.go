package redis

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"syscall"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestRedisReplicated checks that the answer to every change of a key shows
// whether a replica has it.
func TestRedisReplicated(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	r := harness.StartRedis(t, "--repl-diskless-sync-delay", "0")
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: r.Patient(), Global: "replay_floor_ahead 1s"})
	key, changed := g.NewKey(nil), g.NewKey(nil)
	wantReplicated(t, g, changed, nil)

	replica := harness.StartRedis(t, "--replicaof", "127.0.0.1 "+r.ListenTCP())
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
	harness.WantAccepted(t, g.Send(t, key.Get())) // requests do not wait for the replica
	replica.Signal(syscall.SIGCONT)
	harness.Eventually(t, "a change is replicated again", func() bool {
		got := replicated(g, http.MethodPost, "/"+changed.ID+"/enable", "")
		return got != nil && *got
	})
}

// wantReplicated makes every kind of change. A replica may need longer than the
// gateway waits for it. So a change that the replica should have is repeated
// until it has it.
func wantReplicated(t testing.TB, g *harness.Gateway, key harness.Credentials, want *bool) {
	t.Helper()
	text := func(b *bool) string { return harness.JSONText(t, b) }
	var gone harness.Credentials
	another := func() string {
		gone = harness.Credentials{ID: "gone-" + rand.Text(), Secret: rand.Text()}
		return harness.JSONText(t, harness.KeyFields(harness.Fields{"id": gone.ID, "secret": gone.Secret}))
	}
	for what, change := range map[string]func() *bool{
		"create": func() *bool { return replicated(g, http.MethodPost, "", harness.JSONText(t, harness.KeyFields(nil))) },
		"import": func() *bool { return replicated(g, http.MethodPost, "/import", another()) },
		"delete": func() *bool {
			replicated(g, http.MethodPost, "/import", another())
			return replicated(g, http.MethodDelete, "/"+gone.ID, "")
		},
		"update":  func() *bool { return replicated(g, http.MethodPatch, "/"+key.ID, `{"description":"changed"}`) },
		"disable": func() *bool { return replicated(g, http.MethodPost, "/"+key.ID+"/disable", "") },
		"enable":  func() *bool { return replicated(g, http.MethodPost, "/"+key.ID+"/enable", "") },
		"unlock":  func() *bool { return replicated(g, http.MethodPost, "/"+key.ID+"/unlock", "") },
		"rotate":  func() *bool { return replicated(g, http.MethodPost, "/"+key.ID+"/rotate", "") },
	} {
		if want != nil && *want {
			harness.Eventually(t, what+" is replicated", func() bool { return text(change()) == text(want) })
		} else if got := change(); text(got) != text(want) {
			t.Errorf("%s answers replicated %s, want %s", what, text(got), text(want))
		}
	}
}

// replicated makes a change and returns the field replicated of the answer.
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
