package harness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A RedisServer is a redis-server that one test has started, in its own
// directory. It can be killed and started again.
type RedisServer struct {
	t      testing.TB
	Name   string // its name in the links
	Dir    string // short, because a unix socket is in it
	config []string
	Addr   string   // of the unix socket, or host:port
	Env    []string // further variables of its environment
	cmd    *exec.Cmd
	pid    atomic.Int64
	client *redis.Client
}

// Patient returns the arguments of the line store for tests that do not test time.
// With them, a request on a busy machine waits for Redis instead of being refused.
// The lines are added to the block.
func (r *RedisServer) Patient(lines ...string) string {
	lines = append([]string{"settle_timeout 20s", "change_timeout 20s", "io_timeout 10s"}, lines...)
	return "redis " + r.URL() + " {\n" + strings.Join(lines, "\n") + "\n}"
}

// StartRedis returns a server on a unix socket that answers. Its data is lost with
// the process, unless the configuration keeps it.
func StartRedis(t testing.TB, config ...string) *RedisServer {
	t.Helper()
	r := NewRedis(t, config...)
	r.Start()
	return r
}

// NewRedis makes the directory of a server. It starts no process.
func NewRedis(t testing.TB, config ...string) *RedisServer {
	t.Helper()
	dir, err := os.MkdirTemp("", "cgr")
	if err != nil {
		t.Fatal(err)
	}
	r := &RedisServer{t: t, Dir: dir, Addr: filepath.Join(dir, "s")}
	t.Cleanup(func() {
		r.Kill()
		_ = os.RemoveAll(dir)
	})
	r.config = append([]string{"--dir", dir, "--save", "", "--bind", "127.0.0.1", "--port", "0", "--unixsocket", r.Addr}, config...)
	return r
}

// ListenTCP makes the server listen on a port of this machine too, as
// replication needs it, and returns the port.
func (r *RedisServer) ListenTCP() (port string) {
	r.t.Helper()
	var err error
	for range 10 { // another process may take a free port first
		_, port, _ = net.SplitHostPort(FreeAddress(r.t))
		if err = r.client.ConfigSet(context.Background(), "port", port).Err(); err == nil {
			return port
		}
	}
	r.t.Fatalf("redis-server takes none of ten free ports: %v", err)
	return ""
}

// URL returns the URL for `store redis`.
func (r *RedisServer) URL() string { return "unix://" + r.Addr }

// Start runs the process until it answers.
func (r *RedisServer) Start() {
	r.t.Helper()
	network := "tcp"
	if filepath.IsAbs(r.Addr) {
		network = "unix"
	}
	r.client = redis.NewClient(&redis.Options{Network: network, Addr: r.Addr, DisableIdentity: true})
	// Links name the connections that it opens before it answers, too.
	r.cmd = RedisProcess{Dir: r.Dir, Config: r.config, Env: r.Env, Began: func(pid int) { r.pid.Store(int64(pid)) }}.Run(r.t, r.client)
}

// A RedisProcess is how a redis-server is started. All tests start theirs by it.
type RedisProcess struct {
	Dir    string   // for what it prints
	Config []string // its arguments
	Env    []string // besides the test's own
	Began  func(pid int)
}

// Run starts the process, and waits until it answers the client.
func (p RedisProcess) Run(t testing.TB, client *redis.Client) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("redis-server", p.Config...)
	out, err := os.Create(filepath.Join(p.Dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), p.Env...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting redis-server (make install-test-tools installs it): %v", err)
	}
	if p.Began != nil {
		p.Began(cmd.Process.Pid)
	}
	for deadline := time.Now().Add(Patience); client.Ping(context.Background()).Err() != nil; time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(out.Name()); time.Now().After(deadline) {
			t.Fatalf("redis-server does not answer:\n%s", text)
		}
	}
	return cmd
}

// Kill ends the process at once.
func (r *RedisServer) Kill() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	_ = r.client.Close()
	r.pid.Store(0)
	r.cmd = nil
}

// Signal sends the process a signal.
func (r *RedisServer) Signal(s os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// Do runs a command that is expected to succeed.
func (r *RedisServer) Do(args ...any) any {
	r.t.Helper()
	reply, err := r.client.Do(context.Background(), args...).Result()
	if err != nil {
		r.t.Fatalf("redis %v: %v", args, err)
	}
	return reply
}

// calls returns how often each command was called, also by scripts.
func (r *RedisServer) calls() map[string]int {
	r.t.Helper()
	counts := make(map[string]int)
	for line := range strings.Lines(fmt.Sprint(r.Do("info", "commandstats"))) {
		var n int
		name, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":")
		if _, err := fmt.Sscanf(rest, "calls=%d,", &n); err == nil {
			counts[name] = n
		}
	}
	return counts
}

// ScriptCalls returns how often scripts were called so far.
func (r *RedisServer) ScriptCalls() int {
	c := r.calls()
	return c["evalsha"] + c["evalsha_ro"] + c["eval"] + c["eval_ro"] + c["fcall"] + c["fcall_ro"]
}

// A Monitor sees every command that clients send to a server.
type Monitor struct {
	r    *RedisServer
	conn net.Conn
	in   *bufio.Reader
}

// Monitor begins to record what clients send from now on.
func (r *RedisServer) Monitor() *Monitor {
	r.t.Helper()
	conn, err := net.Dial("unix", r.Addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(Patience))
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		r.t.Fatal(err)
	}
	m := &Monitor{r, conn, bufio.NewReader(conn)}
	if line, err := m.in.ReadString('\n'); err != nil || line != "+OK\r\n" {
		r.t.Fatalf("MONITOR is answered %q (%v)", line, err)
	}
	return m
}

// Seen returns the recorded commands, one in a line as Redis writes them. It
// leaves out those that scripts run and those of the test itself.
func (m *Monitor) Seen() []string {
	m.r.t.Helper()
	const mark = "the end of what is monitored"
	_ = m.conn.SetDeadline(time.Now().Add(Patience))
	m.r.Do("echo", mark)
	var all []string
	for {
		line, err := m.in.ReadString('\n')
		switch {
		case err != nil:
			m.r.t.Fatalf("reading what is monitored: %v", err)
		case strings.Contains(line, mark):
			return all
		case strings.Contains(line, " lua] "):
		default:
			_, command, _ := strings.Cut(line, "] ")
			all = append(all, strings.TrimSpace(command))
		}
	}
}
