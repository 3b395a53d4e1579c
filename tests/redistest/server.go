// Package redistest starts redis-servers for tests: alone, as a cluster and as a
// Sentinel set. A [Proxy] in front of one makes faults. Begin with [Own] and
// [SharedSingle] in server.go.
package redistest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// Slots is how many slots a cluster has.
const Slots = 16384

var ctx = context.Background()

// Slot returns the slot of a hash tag: CRC16 (XMODEM) modulo Slots.
func Slot(tag string) int {
	crc := 0
	for i := range len(tag) {
		crc ^= int(tag[i]) << 8
		for range 8 {
			if crc <<= 1; crc&0x10000 != 0 {
				crc ^= 0x11021
			}
		}
	}
	return crc % Slots
}

// shared holds the servers that tests share. Each test has a prefix of its
// Own on them.
var shared struct {
	mu       sync.Mutex
	single   *Process
	cluster  []*Process
	sentinel *SentinelSet
	all      []*Process
}

// Main runs the tests of a package, ends the servers that they share, and fails if
// goroutines are left. It is called by TestMain, and exits.
func Main(m *testing.M) {
	logging.Disable()
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() == "" {
		_ = flag.Set("test.parallel", "6") // they wait for servers, not for a CPU
	}
	code := m.Run()
	for _, p := range shared.all {
		p.Kill()
		_ = os.RemoveAll(p.Dir)
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

// A Process is a redis-server that the tests have started.
type Process struct {
	Addr   string // unix socket or host:port
	Port   int    // 0 on a socket
	Dir    string
	Config []string
	Env    []string // besides the test's own
	Cmd    *exec.Cmd
	Client *redis.Client
}

// launch starts a server in a directory of its own and waits until it answers.
func launch(t testing.TB, tcp bool, config ...string) *Process {
	t.Helper()
	dir, err := os.MkdirTemp("", "cg-redis-")
	if err != nil {
		t.Fatal(err)
	}
	// A server that is killed has written what it answered to; the disk of a busy
	// machine would stop it for seconds.
	p := &Process{Dir: dir, Config: append([]string{"--dir", dir, "--save", "", "--appendfsync", "no"}, config...)}
	if tcp {
		p.Port = harness.FreePort(t)
		p.Addr = fmt.Sprintf("127.0.0.1:%d", p.Port)
		p.Config = append(p.Config, "--port", fmt.Sprint(p.Port), "--bind", "127.0.0.1")
	} else {
		p.Addr = filepath.Join(dir, "s")
		p.Config = append(p.Config, "--port", "0", "--unixsocket", p.Addr)
	}
	p.Start(t)
	return p
}

// Own returns a new server for one test alone, on a unix socket or on a port.
func Own(t testing.TB, tcp bool, config ...string) *Process {
	t.Helper()
	p := launch(t, tcp, config...)
	t.Cleanup(func() {
		p.Kill()
		_ = os.RemoveAll(p.Dir)
	})
	return p
}

// Start starts the server, again after Kill, and waits until it answers.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	if p.Client == nil {
		p.Client = redis.NewClient(p.options())
	}
	p.Cmd = harness.RedisProcess{Dir: p.Dir, Config: p.Config, Env: p.Env}.Run(t, p.Client)
}

func (p *Process) options() *redis.Options {
	o := &redis.Options{Addr: p.Addr, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}}
	if p.Port == 0 {
		o.Network = "unix"
	}
	return o
}

// Kill ends the process at once. It can be started again.
func (p *Process) Kill() {
	if p.Cmd.Process != nil && p.Cmd.ProcessState == nil {
		_ = p.Cmd.Process.Kill()
		_ = p.Cmd.Wait()
	}
	_ = p.Client.Close()
	p.Client = nil
}

// URL returns the address in the form of the options.
func (p *Process) URL() string {
	if p.Port == 0 {
		return "unix://" + p.Addr
	}
	return "redis://" + p.Addr
}

// Do runs a command and fails the test when it fails.
func (p *Process) Do(t testing.TB, args ...any) any {
	t.Helper()
	v, err := p.Client.Do(ctx, args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// Busy is how many times longer a busy machine may take than an idle one.
const Busy = 20

// Eventually waits until the condition holds, which takes no longer than
// within on an idle machine.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(Busy * within)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", Busy*within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func keep(p *Process) *Process {
	shared.all = append(shared.all, p)
	return p
}

// SharedSingle returns the server that tests share.
func SharedSingle(t testing.TB) *Process {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.single == nil {
		shared.single = keep(launch(t, false))
	}
	return shared.single
}

// SharedCluster returns three masters.
func SharedCluster(t testing.TB) []*Process {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil {
		for _, p := range launchCluster(t, 3) {
			shared.cluster = append(shared.cluster, keep(p))
		}
	}
	return shared.cluster
}

// Several skips a test that starts several servers when tests are to be short.
func Several(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts several servers")
	}
}

// launchCluster starts masters that share the slots evenly.
func launchCluster(t testing.TB, masters int) []*Process {
	t.Helper()
	Several(t)
	all := make([]*Process, masters)
	for i := range all {
		all[i] = LaunchClusterNode(t)
	}
	Join(t, all)
	return all
}

// Join makes a cluster of the masters.
func Join(t testing.TB, all []*Process) {
	t.Helper()
	masters := len(all)
	for i, p := range all {
		p.Do(t, "cluster", "set-config-epoch", i+1)
		p.Do(t, "cluster", "addslotsrange", i*Slots/masters, (i+1)*Slots/masters-1)
		p.Meet(t, all[0])
	}
	for _, p := range all {
		Eventually(t, 20*time.Second, "the cluster is whole", func() bool {
			info, _ := p.Client.ClusterInfo(ctx).Result()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d\r", Slots)) && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", masters))
		})
	}
}

// LaunchClusterNode starts a server whose death the others notice after 5 s: on a
// Busy machine it may well be silent for one.
func LaunchClusterNode(t testing.TB) *Process {
	t.Helper()
	return launch(t, true, "--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-port", fmt.Sprint(harness.FreePort(t)),
		"--cluster-require-full-coverage", "no", "--appendonly", "yes", "--repl-diskless-sync-delay", "0")
}

func (p *Process) bus() string {
	for i, a := range p.Config {
		if a == "--cluster-port" {
			return p.Config[i+1]
		}
	}
	text, _ := os.ReadFile(p.Config[0])
	if found := regexp.MustCompile(`(?m)^cluster-port (\d+)`).FindSubmatch(text); found != nil {
		return string(found[1])
	}
	return ""
}

// Meet lets the node join the cluster of the other.
func (p *Process) Meet(t testing.TB, other *Process) {
	t.Helper()
	if p != other {
		p.Do(t, "cluster", "meet", "127.0.0.1", other.Port, other.bus())
	}
}

// Addrs returns the addresses of the servers.
func Addrs(all []*Process) []string {
	list := make([]string, len(all))
	for i, p := range all {
		list[i] = p.Addr
	}
	return list
}

// A SentinelSet is a master, a replica and three sentinels.
type SentinelSet struct {
	Master, Replica *Process
	Sentinels       []*Process
}

// launchSentinel starts a set whose sentinels call a server dead after the time.
func launchSentinel(t testing.TB, downAfter time.Duration) *SentinelSet {
	t.Helper()
	Several(t)
	set := &SentinelSet{}
	config := append([]string{"--repl-diskless-sync-delay", "0", "--appendonly", "yes"}, harness.WithReplicas...)
	set.Master = launch(t, true, config...)
	set.Replica = launch(t, true, append(config, "--replicaof", fmt.Sprintf("127.0.0.1 %d", set.Master.Port))...)
	for range 3 {
		dir, err := os.MkdirTemp("", "cg-sentinel-")
		if err != nil {
			t.Fatal(err)
		}
		p := &Process{Dir: dir, Port: harness.FreePort(t)}
		p.Addr = fmt.Sprintf("127.0.0.1:%d", p.Port)
		file := filepath.Join(dir, "conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor gw 127.0.0.1 %d 2\nsentinel down-after-milliseconds gw %d\nsentinel failover-timeout gw 2000\n", p.Port, dir, set.Master.Port, downAfter.Milliseconds())
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Config = []string{file, "--sentinel"}
		p.Start(t)
		set.Sentinels = append(set.Sentinels, p)
	}
	Eventually(t, 20*time.Second, "the sentinels know each other and the replica", func() bool {
		for _, p := range set.Sentinels {
			v, err := p.Client.Do(ctx, "sentinel", "master", "gw").Result()
			m, _ := v.(map[any]any)
			if err != nil || fmt.Sprint(m["num-other-sentinels"]) != "2" || fmt.Sprint(m["num-slaves"]) != "1" {
				return false
			}
		}
		return true
	})
	return set
}

func (set *SentinelSet) processes() []*Process {
	return append([]*Process{set.Master, set.Replica}, set.Sentinels...)
}

// SharedSentinel returns a set in which no server fails.
func SharedSentinel(t testing.TB) *SentinelSet {
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

// Signal sends a signal to a server that the test started.
func (p *Process) Signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Follows reports whether the server is a replica and up to date.
func (p *Process) Follows(t testing.TB) bool {
	t.Helper()
	info, err := p.Client.Info(ctx, "replication").Result()
	return err == nil && strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up")
}

// ID returns the id of the node in its cluster.
func (p *Process) ID(t testing.TB) string {
	t.Helper()
	return fmt.Sprint(p.Do(t, "cluster", "myid"))
}

// Promote lets a replica of a cluster take over as docs/redis.md says: the servers
// give up after 5 s if they were too slow, and then the command is repeated.
func (p *Process) Promote(t testing.TB) {
	t.Helper()
	var asked time.Time
	Eventually(t, 20*time.Second, "the replica is promoted", func() bool {
		if time.Since(asked) > 6*time.Second {
			asked = time.Now()
			_ = p.Client.Do(ctx, "cluster", "failover").Err()
		}
		info, err := p.Client.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	})
}

// Restart stops the server in order and starts it again.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.Cmd.Wait() }()
	for running := true; running; {
		// A replica that writes its first append-only file refuses to end, and forgets
		// that it was asked to.
		_ = p.Cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if running = false; err != nil {
				t.Fatalf("redis-server ended with %v", err)
			}
		case <-time.After(time.Second):
		}
	}
	p.Start(t)
	Eventually(t, 10*time.Second, "the data is loaded", func() bool {
		info, err := p.Client.Info(ctx, "persistence").Result()
		return err == nil && strings.Contains(info, "loading:0")
	})
}

// Content returns everything on the server that the gateway wrote.
func (p *Process) Content(t testing.TB) map[string]any {
	t.Helper()
	all := make(map[string]any)
	names, err := p.Client.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		switch kind := p.Client.Type(ctx, name).Val(); kind {
		case "hash":
			all[name] = p.Client.HGetAll(ctx, name).Val()
		case "zset":
			all[name] = p.Client.ZRange(ctx, name, 0, -1).Val()
		default:
			all[name] = p.Client.Get(ctx, name).Val()
		}
	}
	return all
}

// Dump returns the content of the server in the form of RESTORE.
func (p *Process) Dump(t testing.TB) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range p.Client.Keys(ctx, "*").Val() {
		value, err := p.Client.Dump(ctx, name).Result()
		if err != nil {
			t.Fatal(err)
		}
		all[name] = value
	}
	return all
}

// NeedReplicas sets how many replicas the servers need to accept writes. A gateway does
// not start where a master that has a replica needs none.
func NeedReplicas(t testing.TB, n int, all ...*Process) {
	t.Helper()
	for _, p := range all {
		p.Do(t, "config", "set", "min-replicas-to-write", n, "min-replicas-max-lag", 3)
	}
}

// MasterAndReplica starts two servers of which one follows the other.
func MasterAndReplica(t testing.TB, config ...string) (master, replica *Process) {
	t.Helper()
	config = append([]string{"--repl-diskless-sync-delay", "0"}, config...)
	master = Own(t, true, config...)
	replica = Own(t, true, append(config, "--replicaof", fmt.Sprintf("127.0.0.1 %d", master.Port))...)
	Eventually(t, 20*time.Second, "the replica follows", func() bool { return replica.Follows(t) })
	// A master with min-replicas-to-write counts its good replicas once a second.
	Eventually(t, 20*time.Second, "the master takes writes", func() bool { return master.Client.Del(ctx, "nothing").Err() == nil })
	return master, replica
}

// OwnSentinel returns a set for one test alone, whose servers may fail.
func OwnSentinel(t testing.TB) *SentinelSet {
	t.Helper()
	set := launchSentinel(t, 500*time.Millisecond)
	t.Cleanup(func() {
		for _, p := range set.processes() {
			if p.Client != nil {
				p.Kill()
			}
			_ = os.RemoveAll(p.Dir)
		}
	})
	return set
}

// OwnCluster returns three masters for one test alone.
func OwnCluster(t testing.TB) []*Process {
	t.Helper()
	all := launchCluster(t, 3)
	t.Cleanup(func() {
		for _, p := range all {
			if p.Client != nil {
				p.Kill()
			}
			_ = os.RemoveAll(p.Dir)
		}
	})
	return all
}

// Login makes a client for the user of the test.
func (p *Process) Login() {
	o := p.options()
	o.Username, o.Password = "test", "any"
	p.Client = redis.NewClient(o)
}
