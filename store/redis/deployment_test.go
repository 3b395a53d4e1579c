package redis

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/harness"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// snippet returns redis.conf of docs/several-nodes.md, or a file of ops/redis to which
// docs/high-availability.md links, with its passwords filled in.
func snippet(t testing.TB, name string) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/several-nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?ms)^\\S.* <<'END'\n# " + regexp.QuoteMeta(name) + "\n(.*?)^END$").FindSubmatch(doc)
	available, err := os.ReadFile("../../docs/high-availability.md")
	if err != nil {
		t.Fatal(err)
	}
	if link := "](../ops/redis/" + name + ")"; strings.Contains(string(available), link) {
		text, err := os.ReadFile("../../ops/redis/" + name)
		if err != nil {
			t.Fatal(err)
		}
		found = [][]byte{nil, text}
	}
	if found == nil {
		t.Fatalf("docs/several-nodes.md shows no %s, and docs/high-availability.md links to none", name)
	}
	return strings.NewReplacer("REPLICA_PASSWORD", "replicas", "SENTINEL_PASSWORD", "sentinels", ">PASSWORD", ">secret").Replace(string(found[1]))
}

// documented starts a server with the printed lines, a directory and a port of
// its own, and a user for the test.
func documented(t testing.TB, config string, more ...string) *redistest.Process {
	t.Helper()
	dir, err := os.MkdirTemp("", "cg-redis-")
	if err != nil {
		t.Fatal(err)
	}
	p := &redistest.Process{Dir: dir, Port: harness.FreePort(t)}
	p.Addr = fmt.Sprintf("127.0.0.1:%d", p.Port)
	own := fmt.Sprintf("\nport %d\nbind 127.0.0.1\ndir %s\nuser test on nopass ~* &* +@all\n", p.Port, dir)
	file := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(file, []byte(config+own+strings.Join(more, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Config = []string{file}
	t.Cleanup(func() {
		p.Kill()
		_ = os.RemoveAll(dir)
	})
	p.Login()
	p.Start(t)
	return p
}

// Servers that are configured exactly as in the documentation have all their
// data after an orderly restart, in every topology.
func TestDocumentedServersKeepData(t *testing.T) {
	t.Parallel()
	common := snippet(t, "redis.conf")
	tests := map[string]func(t *testing.T) ([]*redistest.Process, Options){
		"single": func(t *testing.T) ([]*redistest.Process, Options) {
			p := documented(t, common)
			return []*redistest.Process{p}, Options{Options: rpc.Options{URL: p.URL()}}
		},
		"sentinel": func(t *testing.T) ([]*redistest.Process, Options) { return documentedSentinel(t, common) },
		"cluster": func(t *testing.T) ([]*redistest.Process, Options) {
			redistest.Several(t)
			var nodes []*redistest.Process
			for range 3 {
				nodes = append(nodes, documented(t, common+snippet(t, "cluster.conf"), fmt.Sprintf("cluster-port %d", harness.FreePort(t))))
			}
			redistest.Join(t, nodes)
			return nodes, Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(nodes)}}
		},
	}
	for name, start := range tests {
		t.Run(name, func(t *testing.T) {
			servers, opt := start(t)
			opt.Username, opt.Password, opt.IOTimeout, opt.SettleTimeout = "gateway", "secret", time.Second, 2*time.Second
			keepsData(t, servers, opt)
		})
	}
}

func keepsData(t *testing.T, servers []*redistest.Process, opt Options) {
	s := open(t, opt)
	var r *store.Record
	redistest.Eventually(t, 20*time.Second, "keys can be written", func() bool {
		r = newRecord()
		_, err := s.Put(ctx, r, store.PutOptions{})
		return err == nil
	})
	accepted := charge(t, newClaim(r), "issue_card", "5/1d")
	expect(t, s, accepted, auth.Accepted)
	failed := newClaim(r)
	failed.Failed = auth.RuleSignature
	expect(t, s, failed, auth.SignatureMismatch)
	locked := newKey(t, s)
	lock := newClaim(locked)
	lock.LockAfter = 0
	expect(t, s, lock, auth.KeyLocked)
	if status := s.Status(ctx); len(status.Details.Warnings) != 0 {
		t.Errorf("warnings %q, want none", status.Details.Warnings)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if opt.SentinelMaster != "" { // the replica comes first
		redistest.Eventually(t, 10*time.Second, "the replica has everything", func() bool {
			return reflect.DeepEqual(servers[0].Content(t), servers[1].Content(t))
		})
	}
	total := 0
	for _, p := range servers {
		before := p.Content(t)
		total += len(before)
		p.Restart(t)
		redistest.Eventually(t, 10*time.Second, "everything is there again", func() bool { // a node comes back to its cluster first
			return reflect.DeepEqual(p.Content(t), before)
		})
	}
	if total < 5 {
		t.Errorf("%d Redis keys were compared; the test shows nothing", total)
	}
	s = open(t, opt)
	var found *store.Record
	redistest.Eventually(t, 20*time.Second, "the key can be read", func() (ok bool) {
		var err error
		found, err = s.Get(ctx, r.ID)
		return err == nil
	})
	if found.Failures != 1 {
		t.Errorf("failure count %d, want 1", found.Failures)
	}
	if l, err := s.Get(ctx, locked.ID); err != nil || l.Lock == nil {
		t.Errorf("the locked key: %+v, %v", l, err)
	}
	again := again(accepted)
	again.ReplayFloorAhead = -time.Hour // the floor of the restart aside
	redistest.Eventually(t, 20*time.Second, "a repetition is known", func() bool {
		v, err := s.Settle(ctx, again)
		return err == nil && v.Reason == auth.ReplayedNonce
	})
}

// documentedSentinel starts a primary with a replica and three sentinels.
func documentedSentinel(t *testing.T, common string) ([]*redistest.Process, Options) {
	redistest.Several(t)
	config := common + snippet(t, "replicas.conf")
	primary := documented(t, config, "repl-diskless-sync-delay 0")
	replica := documented(t, config, "repl-diskless-sync-delay 0", fmt.Sprintf("replicaof 127.0.0.1 %d", primary.Port))
	var sentinels []*redistest.Process
	for range 3 {
		dir := t.TempDir()
		p := &redistest.Process{Dir: dir, Port: harness.FreePort(t)}
		p.Addr = fmt.Sprintf("127.0.0.1:%d", p.Port)
		text := strings.Replace(snippet(t, "sentinel.conf"), "10.0.0.21 6379", fmt.Sprintf("127.0.0.1 %d", primary.Port), 1)
		file := filepath.Join(dir, "conf")
		if err := os.WriteFile(file, fmt.Appendf(nil, "port %d\nbind 127.0.0.1\ndir %s\n%s", p.Port, dir, text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Config = []string{file, "--sentinel"}
		p.Start(t)
		t.Cleanup(p.Kill)
		sentinels = append(sentinels, p)
	}
	redistest.Eventually(t, 20*time.Second, "the sentinels see the primary and its replica", func() bool {
		v, err := sentinels[0].Client.Do(ctx, "sentinel", "master", "mymaster").Result()
		m, _ := v.(map[any]any)
		return err == nil && fmt.Sprint(m["flags"]) == "master" && fmt.Sprint(m["num-slaves"]) == "1"
	})
	return []*redistest.Process{replica, primary}, Options{Options: rpc.Options{SentinelMaster: "mymaster", SentinelAddrs: redistest.Addrs(sentinels)}}
}

// The two pages with the ACL rule of the user have the same rule.
func TestDocumentedRulesAgree(t *testing.T) {
	for line := range strings.Lines(snippet(t, "redis.conf")) {
		if rest, found := strings.CutPrefix(line, "user gateway "); found {
			if got, want := strings.Fields(rest), aclRule(t); !reflect.DeepEqual(got, want) {
				t.Errorf("docs/several-nodes.md says %q, docs/redis.md %q", got, want)
			}
			return
		}
	}
	t.Error("docs/several-nodes.md shows no user gateway")
}
