package harness

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Servers are the Redis servers of one deployment. Every connection to them goes
// through the links, except those of the test itself.
type Servers struct {
	*Links
	Store string         // the arguments of the line store
	All   []*RedisServer // masters first; the name shows the role
	// Sentinels watch over the first of All.
	Sentinels []*RedisServer

	addrs map[string]string // through the links, by name
}

// WithReplicas are the lines of docs/high-availability.md for servers with replicas, as
// arguments.
var WithReplicas = []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "3"}

// durable are the lines of docs/several-nodes.md for every server, as arguments.
// It uses appendfsync always, because otherwise a killed server on a machine
// with a busy disk could lose acknowledged writes.
var durable = []string{"--maxmemory-policy", "noeviction", "--appendonly", "yes", "--appendfsync", "always"}

const clusterSlots = 16384

// servicePort returns a free port that it has not returned before. It is outside
// the range from which the system chooses ports.
func servicePort(t testing.TB) string {
	t.Helper()
	const first, many = 20_001, 12_000
	for range 1000 {
		port := first + mathrand.IntN(many)
		if _, given := portsGiven.LoadOrStore(port, true); given {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return fmt.Sprint(port)
		}
	}
	t.Fatal("no free port")
	return ""
}

var portsGiven sync.Map // of int

// add makes a server behind the links and starts nothing.
func (s *Servers) add(name string, config ...string) *RedisServer {
	s.t.Helper()
	port, bus := servicePort(s.t), servicePort(s.t)
	addr := s.Listen(name, "127.0.0.1:"+port)
	_, announced, _ := net.SplitHostPort(addr)
	all := append([]string{
		"--port", port, "--replica-announce-ip", "127.0.0.1", "--replica-announce-port", announced, "--repl-diskless-sync-delay", "0",
	}, durable...)
	if s.clustered(config) {
		_, announcedBus, _ := net.SplitHostPort(s.Listen(name, "127.0.0.1:"+bus))
		all = append(all, "--cluster-port", bus, "--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", announced, "--cluster-announce-bus-port", announcedBus)
	}
	r := NewRedis(s.t, append(all, config...)...)
	r.Name = name
	s.Name(name, r.Pid)
	s.addrs[name] = addr
	s.All = append(s.All, r)
	return r
}

func (s *Servers) clustered(config []string) bool {
	return len(config) > 0 && config[0] == "--cluster-enabled"
}

func newServers(t testing.TB) *Servers {
	return &Servers{Links: NewLinks(t), addrs: make(map[string]string)}
}

// Addr returns the address of a server, host:port, through the links.
func (s *Servers) Addr(r *RedisServer) string { return s.addrs[r.Name] }

// StartSingle returns one server. If clock is not nil, the server follows it.
func StartSingle(t testing.TB, clock *Clock) *Servers {
	t.Helper()
	s := newServers(t)
	r := s.add("redis")
	if clock != nil {
		r.Env = clock.RedisEnv()
	}
	r.Start()
	s.Store = "redis redis://" + s.Addr(r) + "/0"
	return s
}

// StartSentinel returns a master with two replicas and three sentinels, with the
// lines of docs/several-nodes.md.
func StartSentinel(t testing.TB) *Servers {
	t.Helper()
	s := newServers(t)
	master := s.add("master", WithReplicas...)
	master.Start()
	_, port, _ := net.SplitHostPort(s.Addr(master))
	for _, name := range []string{"replica-1", "replica-2"} {
		s.add(name, append([]string{"--replicaof", "127.0.0.1 " + port}, WithReplicas...)...).Start()
	}
	var addrs []string
	for i := range 3 {
		sentinel := s.sentinel(fmt.Sprintf("sentinel-%d", i+1), port)
		s.Sentinels = append(s.Sentinels, sentinel)
		addrs = append(addrs, s.Addr(sentinel))
	}
	Eventually(t, "the sentinels know each other and the replicas", func() bool {
		for _, p := range s.Sentinels {
			m, err := p.client.Do(context.Background(), "sentinel", "master", "gw").Result()
			known, _ := m.(map[any]any)
			if err != nil || fmt.Sprint(known["num-other-sentinels"]) != "2" || fmt.Sprint(known["num-slaves"]) != "2" {
				return false
			}
		}
		return s.replicated(2)
	})
	s.Store = "redis sentinel gw " + strings.Join(addrs, " ")
	return s
}

// sentinel starts a sentinel that watches the master at the port.
func (s *Servers) sentinel(name, master string) *RedisServer {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "cgs")
	if err != nil {
		s.t.Fatal(err)
	}
	port := servicePort(s.t)
	r := &RedisServer{t: s.t, Name: name, Dir: dir, Addr: "127.0.0.1:" + port}
	s.t.Cleanup(func() {
		r.Kill()
		_ = os.RemoveAll(dir)
	})
	s.addrs[name] = s.Listen(name, r.Addr)
	_, announced, _ := net.SplitHostPort(s.addrs[name])
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel announce-ip 127.0.0.1\nsentinel announce-port %s\nsentinel monitor gw 127.0.0.1 %s 2\n"+
		"sentinel down-after-milliseconds gw 5000\nsentinel failover-timeout gw 30000\n", port, dir, announced, master)
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	r.config = []string{file, "--sentinel"}
	s.Name(name, r.Pid)
	r.Start()
	return r
}

// replicated reports whether every master has the number of replicas, all up to
// date.
func (s *Servers) replicated(replicas int) bool {
	for _, r := range s.All {
		info, err := r.client.Info(context.Background(), "replication").Result()
		switch {
		case err != nil:
			return false
		case strings.Contains(info, "role:slave"):
			if !strings.Contains(info, "master_link_status:up") {
				return false
			}
		case !strings.Contains(info, fmt.Sprintf("connected_slaves:%d\r", replicas)) || !strings.Contains(info, fmt.Sprintf("min_slaves_good_slaves:%d\r", replicas)):
			return false
		}
	}
	return true
}

// Role returns the role that a server reports, master or slave. It is empty if
// the server does not answer.
func (r *RedisServer) Role() string {
	info, _ := r.client.Info(context.Background(), "replication").Result()
	_, rest, _ := strings.Cut(info, "role:")
	role, _, _ := strings.Cut(rest, "\r")
	return role
}

// Pid returns the id of the process, 0 while there is none.
func (r *RedisServer) Pid() int { return int(r.pid.Load()) }

// Running reports whether the process was started and not killed.
func (r *RedisServer) Running() bool { return r.cmd != nil }

// TryDo runs a command that may fail.
func (r *RedisServer) TryDo(args ...any) (any, error) {
	reply, err := r.client.Do(context.Background(), args...).Result()
	return reply, err
}
