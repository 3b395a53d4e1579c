package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Options are the place of Redis and the settings of the connections. Exactly one of
// URL, ClusterAddrs and SentinelAddrs is given.
type Options struct {
	// URL of one server: redis://, rediss:// (TLS) or unix://, such as
	// rediss://user@host:6379/0. The password is in Password. Parameters after ?
	// are refused, except the db of unix://path?db=0.
	URL string
	// ClusterAddrs are the host:port of some nodes of a cluster; the client finds
	// the others.
	ClusterAddrs []string
	// SentinelMaster is the name of the set and SentinelAddrs are host:port of
	// the sentinels.
	SentinelMaster string
	SentinelAddrs  []string

	// Username and Password for the servers. Password is the secret itself, not a
	// reference. If only one of them is given, Redis decides whether that is
	// enough.
	Username, Password string
	// SentinelUsername and SentinelPassword are for the sentinels. The user and
	// password of the servers are not used for them.
	SentinelUsername, SentinelPassword string
	// DB is the number of the database. A cluster has only 0.
	DB int

	// TLS turns on TLS to a cluster, or to a sentinel set and its sentinels. For
	// one server write rediss:// in the URL.
	TLS bool
	// CAFile is a PEM file of authorities to trust instead of the system's.
	CAFile string
	// ServerName is the name in the servers' certificates, if it differs from the
	// name in their address.
	ServerName string

	// IOTimeout is how long one dial, read, write or wait for a connection may
	// take. Default: 100 ms.
	IOTimeout time.Duration
	// PoolSize is the most connections to one server, and so the most calls at the
	// same time. 64 times as many may wait, each for at most IOTimeout. Default: 10
	// per CPU, at least 32.
	PoolSize int

	// Logger gets messages for operators. Default: none.
	Logger *slog.Logger
	// Queue, when set, is called for every event of a call that has to wait for
	// a connection, by many goroutines at once. It must not block.
	Queue func(QueueEvent)

	// Dialer, when set, makes the connections, without TLS.
	Dialer Dialer
}

// A Dialer makes a connection to a server.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

func (o Options) withDefaults() (Options, error) {
	if err := o.check(); err != nil {
		return o, fmt.Errorf("redis: %w", err)
	}
	o.ClusterAddrs, o.SentinelAddrs = slices.Clone(o.ClusterAddrs), slices.Clone(o.SentinelAddrs)
	o.IOTimeout = cmp.Or(o.IOTimeout, 100*time.Millisecond)
	o.PoolSize = cmp.Or(o.PoolSize, max(32, 10*runtime.GOMAXPROCS(0)))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Queue == nil {
		o.Queue = func(QueueEvent) {}
	}
	return o, nil
}

func (o *Options) check() error {
	places := 0
	for _, given := range []bool{o.URL != "", len(o.ClusterAddrs) > 0, len(o.SentinelAddrs) > 0} {
		if given {
			places++
		}
	}
	switch {
	case places != 1:
		return errors.New("give one of a URL, the addresses of a cluster, or the addresses of sentinels")
	case (o.SentinelMaster != "") != (len(o.SentinelAddrs) > 0):
		return errors.New("sentinels need the name of their master, and the other way round")
	case len(o.ClusterAddrs) > 0 && o.DB != 0:
		return fmt.Errorf("a cluster has no database %d, only 0", o.DB)
	case o.DB < 0:
		return fmt.Errorf("database %d; want 0 or more", o.DB)
	case o.IOTimeout < 0 || o.PoolSize < 0:
		return errors.New("timeouts and the size of the pool must not be negative")
	}
	return nil
}

// The topologies.
const (
	Single   = "single"
	Sentinel = "sentinel"
	Cluster  = "cluster"
)

// Topology returns Single, Sentinel or Cluster.
func (o *Options) Topology() string {
	switch {
	case len(o.ClusterAddrs) > 0:
		return Cluster
	case len(o.SentinelAddrs) > 0:
		return Sentinel
	default:
		return Single
	}
}

// Place returns the addresses of the servers, without credentials.
func (o *Options) Place() string {
	switch o.Topology() {
	case Cluster:
		return strings.Join(o.ClusterAddrs, ",")
	case Sentinel:
		return o.SentinelMaster + "@" + strings.Join(o.SentinelAddrs, ",")
	}
	scheme, rest, _ := strings.Cut(o.URL, "://")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	return scheme + "://" + rest
}
