package redis

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/tests/harness"
)

// snippet returns redis.conf of docs/several-nodes.md, or a file of ops/redis to which
// the page links, with its passwords filled in.
func snippet(t testing.TB, name string) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/several-nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?ms)^\\S.* <<'END'\n# " + regexp.QuoteMeta(name) + "\n(.*?)^END$").FindSubmatch(doc)
	if link := "](../ops/redis/" + name + ")"; strings.Contains(string(doc), link) {
		text, err := os.ReadFile("../../ops/redis/" + name)
		if err != nil {
			t.Fatal(err)
		}
		found = [][]byte{nil, text}
	}
	if found == nil {
		t.Fatalf("docs/several-nodes.md shows no %s, and links to none", name)
	}
	return strings.NewReplacer("REPLICA_PASSWORD", "replicas", "SENTINEL_PASSWORD", "sentinels", ">PASSWORD", ">secret").Replace(string(found[1]))
}

// documented starts a server with the printed lines, a directory and a port of
// its own, and a user for the test.
func documented(t testing.TB, config string, more ...string) *process {
	t.Helper()
	dir, err := os.MkdirTemp("", "cg-redis-")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{dir: dir, port: harness.FreePort(t)}
	p.addr = fmt.Sprintf("127.0.0.1:%d", p.port)
	own := fmt.Sprintf("\nport %d\nbind 127.0.0.1\ndir %s\nuser test on nopass ~* &* +@all\n", p.port, dir)
	file := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(file, []byte(config+own+strings.Join(more, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.config = []string{file}
	t.Cleanup(func() {
		p.kill()
		_ = os.RemoveAll(dir)
	})
	p.login()
	p.start(t)
	return p
}

// login makes a client for the user of the test.
func (p *process) login() {
	o := p.options()
	o.Username, o.Password = "test", "any"
	p.client = redis.NewClient(o)
}

// restart stops the server in order and starts it again.
func (p *process) restart(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("redis-server ended with %v", err)
	}
	p.start(t)
	eventually(t, 10*time.Second, "the data is loaded", func() bool {
		info, err := p.client.Info(ctx, "persistence").Result()
		return err == nil && strings.Contains(info, "loading:0")
	})
}

// content returns everything on the server that the gateway wrote.
func (p *process) content(t testing.TB) map[string]any {
	t.Helper()
	all := make(map[string]any)
	names, err := p.client.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		switch kind := p.client.Type(ctx, name).Val(); kind {
		case "hash":
			all[name] = p.client.HGetAll(ctx, name).Val()
		case "zset":
			all[name] = p.client.ZRange(ctx, name, 0, -1).Val()
		default:
			all[name] = p.client.Get(ctx, name).Val()
		}
	}
	return all
}

// Servers that are configured exactly as in the documentation have all their
// data after an orderly restart, in every topology.
func TestDocumentedServersKeepData(t *testing.T) {
	t.Parallel()
	common := snippet(t, "redis.conf")
	tests := map[string]func(t *testing.T) ([]*process, Options){
		"single": func(t *testing.T) ([]*process, Options) {
			p := documented(t, common)
			return []*process{p}, Options{URL: p.url()}
		},
		"sentinel": func(t *testing.T) ([]*process, Options) { return documentedSentinel(t, common) },
		"cluster": func(t *testing.T) ([]*process, Options) {
			several(t)
			var nodes []*process
			for range 3 {
				nodes = append(nodes, documented(t, common+snippet(t, "cluster.conf"), fmt.Sprintf("cluster-port %d", harness.FreePort(t))))
			}
			join(t, nodes)
			return nodes, Options{ClusterAddrs: addrs(nodes)}
		},
	}
	for name, start := range tests {
		t.Run(name, func(t *testing.T) {
			servers, opt := start(t)
			opt.Username, opt.Password, opt.IOTimeout, opt.SettleTimeout = "gateway", "secret", time.Second, 2*time.Second
			opt.RuntimeDir = t.TempDir()
			keepsData(t, servers, opt)
		})
	}
}

func keepsData(t *testing.T, servers []*process, opt Options) {
	s := open(t, opt)
	var r *store.Record
	eventually(t, 20*time.Second, "keys can be written", func() bool {
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
		eventually(t, 10*time.Second, "the replica has everything", func() bool {
			return reflect.DeepEqual(servers[0].content(t), servers[1].content(t))
		})
	}
	total := 0
	for _, p := range servers {
		before := p.content(t)
		total += len(before)
		p.restart(t)
		eventually(t, 10*time.Second, "everything is there again", func() bool { // a node comes back to its cluster first
			return reflect.DeepEqual(p.content(t), before)
		})
	}
	if total < 5 {
		t.Errorf("%d Redis keys were compared; the test shows nothing", total)
	}
	s = open(t, opt)
	var found *store.Record
	eventually(t, 20*time.Second, "the key can be read", func() (ok bool) {
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
	eventually(t, 20*time.Second, "a repetition is known", func() bool {
		v, err := s.Settle(ctx, again)
		return err == nil && v.Reason == auth.ReplayedNonce
	})
}

// documentedSentinel starts a primary with a replica and three sentinels.
func documentedSentinel(t *testing.T, common string) ([]*process, Options) {
	several(t)
	config := common + snippet(t, "replicas.conf")
	primary := documented(t, config, "repl-diskless-sync-delay 0")
	replica := documented(t, config, "repl-diskless-sync-delay 0", fmt.Sprintf("replicaof 127.0.0.1 %d", primary.port))
	var sentinels []*process
	for range 3 {
		dir := t.TempDir()
		p := &process{dir: dir, port: harness.FreePort(t)}
		p.addr = fmt.Sprintf("127.0.0.1:%d", p.port)
		text := strings.Replace(snippet(t, "sentinel.conf"), "10.0.0.21 6379", fmt.Sprintf("127.0.0.1 %d", primary.port), 1)
		file := filepath.Join(dir, "conf")
		if err := os.WriteFile(file, fmt.Appendf(nil, "port %d\nbind 127.0.0.1\ndir %s\n%s", p.port, dir, text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.config = []string{file, "--sentinel"}
		p.start(t)
		t.Cleanup(p.kill)
		sentinels = append(sentinels, p)
	}
	eventually(t, 20*time.Second, "the sentinels see the primary and its replica", func() bool {
		v, err := sentinels[0].client.Do(ctx, "sentinel", "master", "mymaster").Result()
		m, _ := v.(map[any]any)
		return err == nil && fmt.Sprint(m["flags"]) == "master" && fmt.Sprint(m["num-slaves"]) == "1"
	})
	return []*process{replica, primary}, Options{SentinelMaster: "mymaster", SentinelAddrs: addrs(sentinels)}
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
