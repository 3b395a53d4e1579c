package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// shared holds the servers that tests share. Each test has a prefix of its
// own on them.
var shared struct {
	mu       sync.Mutex
	single   *process
	cluster  []*process
	sentinel *sentinelSet
	all      []*process
}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() == "" {
		_ = flag.Set("test.parallel", "6") // they wait for servers, not for a CPU
	}
	code := m.Run()
	for _, p := range shared.all {
		p.kill()
		_ = os.RemoveAll(p.dir)
	}
	if code == 0 {
		// A pool that could not dial tries again once a second, and may go on
		// for up to a second after it was closed.
		dialing := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
		if err := goleak.Find(dialing); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// A process is a redis-server that the tests have started.
type process struct {
	addr   string // unix socket or host:port
	port   int    // 0 on a socket
	dir    string
	config []string
	env    []string // besides the test's own
	cmd    *exec.Cmd
	client *redis.Client
}

// launch starts a server in a directory of its own and waits until it answers.
func launch(t testing.TB, tcp bool, config ...string) *process {
	t.Helper()
	dir, err := os.MkdirTemp("", "cg-redis-")
	if err != nil {
		t.Fatal(err)
	}
	// A server that is killed has written what it answered to; the disk of a busy
	// machine would stop it for seconds.
	p := &process{dir: dir, config: append([]string{"--dir", dir, "--save", "", "--appendfsync", "no"}, config...)}
	if tcp {
		p.port = harness.FreePort(t)
		p.addr = fmt.Sprintf("127.0.0.1:%d", p.port)
		p.config = append(p.config, "--port", fmt.Sprint(p.port), "--bind", "127.0.0.1")
	} else {
		p.addr = filepath.Join(dir, "s")
		p.config = append(p.config, "--port", "0", "--unixsocket", p.addr)
	}
	p.start(t)
	return p
}

// own is launch for one test alone.
func own(t testing.TB, tcp bool, config ...string) *process {
	t.Helper()
	p := launch(t, tcp, config...)
	t.Cleanup(func() {
		p.kill()
		_ = os.RemoveAll(p.dir)
	})
	return p
}

func (p *process) start(t testing.TB) {
	t.Helper()
	if p.client == nil {
		p.client = redis.NewClient(p.options())
	}
	p.cmd = harness.RedisProcess{Dir: p.dir, Config: p.config, Env: p.env}.Run(t, p.client)
}

func (p *process) options() *redis.Options {
	o := &redis.Options{Addr: p.addr, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, MaintNotificationsConfig: noMaintenance()}
	if p.port == 0 {
		o.Network = "unix"
	}
	return o
}

// kill ends the process at once. It can be started again.
func (p *process) kill() {
	if p.cmd.Process != nil && p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
	_ = p.client.Close()
	p.client = nil
}

func (p *process) url() string {
	if p.port == 0 {
		return "unix://" + p.addr
	}
	return "redis://" + p.addr
}

// do runs a command and fails the test when it fails.
func (p *process) do(t testing.TB, args ...any) any {
	t.Helper()
	v, err := p.client.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// busy is how many times longer a busy machine may take than an idle one.
const busy = 20

// eventually waits until the condition holds, which takes no longer than
// within on an idle machine.
func eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(busy * within)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", busy*within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func keep(p *process) *process {
	shared.all = append(shared.all, p)
	return p
}

// sharedSingle returns the server that tests share.
func sharedSingle(t testing.TB) *process {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.single == nil {
		shared.single = keep(launch(t, false))
	}
	return shared.single
}

// sharedCluster returns three masters.
func sharedCluster(t testing.TB) []*process {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil {
		for _, p := range launchCluster(t, 3) {
			shared.cluster = append(shared.cluster, keep(p))
		}
	}
	return shared.cluster
}

// several skips a test that starts several servers when tests are to be short.
func several(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts several servers")
	}
}

// launchCluster starts masters that share the slots evenly.
func launchCluster(t testing.TB, masters int) []*process {
	t.Helper()
	several(t)
	all := make([]*process, masters)
	for i := range all {
		all[i] = launchClusterNode(t)
	}
	join(t, all)
	return all
}

// join makes a cluster of the masters.
func join(t testing.TB, all []*process) {
	t.Helper()
	masters := len(all)
	for i, p := range all {
		p.do(t, "cluster", "set-config-epoch", i+1)
		p.do(t, "cluster", "addslotsrange", i*slots/masters, (i+1)*slots/masters-1)
		p.meet(t, all[0])
	}
	for _, p := range all {
		eventually(t, 20*time.Second, "the cluster is whole", func() bool {
			info, _ := p.client.ClusterInfo(context.Background()).Result()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d\r", slots)) && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", masters))
		})
	}
}

// launchClusterNode starts a server whose death the others notice after 5 s: on a
// busy machine it may well be silent for one.
func launchClusterNode(t testing.TB) *process {
	t.Helper()
	return launch(t, true, "--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-port", fmt.Sprint(harness.FreePort(t)),
		"--cluster-require-full-coverage", "no", "--appendonly", "yes", "--repl-diskless-sync-delay", "0")
}

func (p *process) bus() string {
	for i, a := range p.config {
		if a == "--cluster-port" {
			return p.config[i+1]
		}
	}
	text, _ := os.ReadFile(p.config[0])
	if found := regexp.MustCompile(`(?m)^cluster-port (\d+)`).FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return ""
}

func (p *process) meet(t testing.TB, other *process) {
	t.Helper()
	if p != other {
		p.do(t, "cluster", "meet", "127.0.0.1", other.port, other.bus())
	}
}

func addrs(all []*process) []string {
	list := make([]string, len(all))
	for i, p := range all {
		list[i] = p.addr
	}
	return list
}

// A sentinelSet is a master, a replica and three sentinels.
type sentinelSet struct {
	master, replica *process
	sentinels       []*process
}

// launchSentinel starts a set whose sentinels call a server dead after the time.
func launchSentinel(t testing.TB, downAfter time.Duration) *sentinelSet {
	t.Helper()
	several(t)
	set := &sentinelSet{}
	set.master = launch(t, true, "--repl-diskless-sync-delay", "0", "--appendonly", "yes")
	set.replica = launch(t, true, "--repl-diskless-sync-delay", "0", "--appendonly", "yes", "--replicaof", fmt.Sprintf("127.0.0.1 %d", set.master.port))
	for range 3 {
		dir, err := os.MkdirTemp("", "cg-sentinel-")
		if err != nil {
			t.Fatal(err)
		}
		p := &process{dir: dir, port: harness.FreePort(t)}
		p.addr = fmt.Sprintf("127.0.0.1:%d", p.port)
		file := filepath.Join(dir, "conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor gw 127.0.0.1 %d 2\nsentinel down-after-milliseconds gw %d\nsentinel failover-timeout gw 2000\n", p.port, dir, set.master.port, downAfter.Milliseconds())
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.config = []string{file, "--sentinel"}
		p.start(t)
		set.sentinels = append(set.sentinels, p)
	}
	eventually(t, 20*time.Second, "the sentinels know each other and the replica", func() bool {
		for _, p := range set.sentinels {
			v, err := p.client.Do(context.Background(), "sentinel", "master", "gw").Result()
			m, _ := v.(map[any]any)
			if err != nil || fmt.Sprint(m["num-other-sentinels"]) != "2" || fmt.Sprint(m["num-slaves"]) != "1" {
				return false
			}
		}
		return true
	})
	return set
}

func (set *sentinelSet) processes() []*process {
	return append([]*process{set.master, set.replica}, set.sentinels...)
}

func sharedSentinel(t testing.TB) *sentinelSet {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.sentinel == nil {
		shared.sentinel = launchSentinel(t, 10*time.Second) // on a busy machine a server may well be silent for one
		for _, p := range shared.sentinel.processes() {
			keep(p)
		}
	}
	return shared.sentinel
}

func random() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
