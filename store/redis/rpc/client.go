package rpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// newClient returns a client of go-redis, which connects at its first use. The hook
// makes its connections.
func (o *Options) newClient(hook *network) (redis.UniversalClient, error) {
	all, err := o.settings()
	if err != nil {
		return nil, err
	}
	switch o.Topology() {
	case Cluster:
		c := all.Cluster()
		c.DisableRoutingPolicies = true
		client := redis.NewClusterClient(c)
		client.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
		return client, nil
	case Sentinel:
		hook.master = &lastMaster{dial: all.Dialer, timeout: o.IOTimeout}
		return hooked(hooked(redis.NewFailoverClient(all.Failover()), hook), hook.master), nil
	default:
		return hooked(redis.NewClient(all.Simple()), hook), nil
	}
}

// guard returns the function that makes all connections, also those of go-redis to
// sentinels. config is nil without TLS.
func (o *Options) guard(config *tls.Config) Dialer {
	plain := &net.Dialer{Timeout: o.IOTimeout}
	dial := plain.DialContext
	if config != nil {
		dial = (&tls.Dialer{NetDialer: plain, Config: config}).DialContext
	}
	if o.Dialer != nil {
		dial = o.Dialer
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &guarded{Conn: c}, nil
	}
}

func hooked(client *redis.Client, hook redis.Hook) *redis.Client {
	client.AddHook(hook)
	return client
}

// settings returns the settings of go-redis. With them go-redis repeats nothing: RunOn
// decides whether a call may be repeated.
func (o *Options) settings() (*redis.UniversalOptions, error) {
	all := &redis.UniversalOptions{
		Addrs: slices.Concat(o.ClusterAddrs, o.SentinelAddrs), MasterName: o.SentinelMaster,
		Username: o.Username, Password: o.Password, DB: o.Database(),
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		MaxRetries: -1, DialerRetries: 1, MaxRedirects: 5,
		MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 10 * time.Millisecond, // between redirections
		DialTimeout: o.IOTimeout, PoolTimeout: o.IOTimeout, ReadTimeout: o.IOTimeout + deadlineSlack, WriteTimeout: o.IOTimeout + deadlineSlack,
		ContextTimeoutEnabled: true, PoolSize: o.PoolSize, PipelinePoolSize: -1, DisableIdentity: true,
		ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	secure, name := o.TLS, o.ServerName
	if o.URL != "" {
		s, err := parseServer(o.URL)
		if err != nil {
			return nil, fmt.Errorf("redis: %w", err)
		}
		if s.db != "" {
			all.DB, _ = strconv.Atoi(s.db) // at most nine digits
		}
		all.Addrs, all.Username = []string{s.address()}, cmp.Or(s.username, o.Username)
		secure, name = s.tls, cmp.Or(o.ServerName, s.host)
	}
	var err error
	if secure {
		all.TLSConfig, err = o.tlsConfig(name)
	}
	all.Dialer = o.guard(all.TLSConfig)
	return all, err
}

// bufferSize of a connection: a settle and its reply are under 2 KiB.
const bufferSize = 8 << 10

func (o *Options) tlsConfig(serverName string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if o.CAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("redis: reading the authorities: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("redis: no certificate in %s; expected PEM", o.CAFile)
	}
	return config, nil
}

// Connect returns a client of go-redis for one server of a sentinel set, or for a
// replica of the single server: with the same settings and another address.
func (c *Client) Connect(addr string) *redis.Client {
	all, _ := c.Options.settings() // New has checked them
	all.Addrs = []string{addr}
	return hooked(redis.NewClient(all.Simple()), newNetwork(c.Options.IOTimeout))
}

// SentinelReplicas returns how many replicas the master has by the first sentinel that
// answers, those that are away included; 0 without sentinels.
func (c *Client) SentinelReplicas(ctx context.Context) int64 {
	for _, addr := range c.Options.SentinelAddrs {
		all, _ := c.Options.settings() // New has checked them
		all.Addrs, all.Username, all.Password, all.DB = []string{addr}, c.Options.SentinelUsername, c.Options.SentinelPassword, 0
		sentinel := redis.NewSentinelClient(all.Simple())
		master, err := sentinel.Master(ctx, c.Options.SentinelMaster).Result()
		_ = sentinel.Close()
		if n, parsed := strconv.ParseInt(master["num-slaves"], 10, 64); err == nil && parsed == nil {
			return n
		}
	}
	return 0
}

// A lastMaster is a hook for the client of a Sentinel set. go-redis asks the
// sentinels at every dial. While none answers, the hook dials the master that they
// named last, because that one may work. If they have named another one
// meanwhile, the connection is like one that was open all the time: every
// settle checks which server answers it.
type lastMaster struct {
	dialHook
	dial    Dialer
	timeout time.Duration
	addr    atomic.Pointer[string] // nil before the first dial
}

// DialHook implements [redis.Hook].
func (m *lastMaster) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err == nil {
			m.addr.Store(new(c.RemoteAddr().String()))
			return c, nil
		}
		last := m.addr.Load()
		var op *net.OpError
		if last == nil || errors.As(err, &op) && op.Addr != nil && op.Addr.String() == *last {
			return nil, err // it is the master that does not answer
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.timeout) // the sentinels have used up the time
		defer cancel()
		c, direct := m.dial(ctx, "tcp", *last)
		if direct != nil {
			return nil, err
		}
		return c, nil
	}
}

// A network makes the connections of a client, as a hook of go-redis. It changes
// the pool of go-redis in three ways:
//
//   - When a connection fails, idle ones that have received nothing since its last
//     command was sent are not used again, because a network that has forgotten
//     one has forgotten most. So the time of recovery does not grow with the pool.
//     Nor is any that was made before the server was found to be a replica.
//   - A reply that has arrived counts, even if this process got no CPU before
//     the deadline had passed.
//   - A failed dial is an error of that call alone. After some of them the pool
//     would stop dialing, for up to a second at a time.
type network struct {
	dialHook
	timeout time.Duration    // of one read or write
	begun   time.Time        // moments are durations since then
	peers   perServer[*peer] // by address
	master  *lastMaster      // nil unless sentinels are asked for it
}

// AddressOf returns the address of the server that the client of go-redis talks to. For
// one that the sentinels have named, go-redis itself has a word in its place.
func (c *Client) AddressOf(node *redis.Client) string {
	if c.network.master != nil {
		if addr := c.network.master.addr.Load(); addr != nil {
			return *addr
		}
	}
	return node.Options().Addr
}

// A dialHook is the part of a hook that leaves commands as they are.
type dialHook struct{}

// A peer is what the connections of one pool share.
type peer struct {
	*network
	suspect Latest // moment; connections that have received nothing since are suspect
}

// Latest is the latest of some moments.
type Latest struct{ atomic.Int64 }

// Raise notes a moment, unless a later one is known.
func (l *Latest) Raise(at int64) {
	for {
		if known := l.Load(); at <= known || l.CompareAndSwap(known, at) {
			return
		}
	}
}

func newNetwork(timeout time.Duration) *network {
	return &network{timeout: timeout, begun: time.Now()}
}

// deadlineSlack is added to the timeouts of go-redis, because it measures them by
// a clock that may be late. The connections set the exact deadlines.
const deadlineSlack = time.Second

func (n *network) now() int64 { return int64(time.Since(n.begun)) }

// DialHook implements [redis.Hook].
func (n *network) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c := &conn{peer: n.peers.at(addr, func() *peer { return &peer{network: n} })}
		var err error
		if c.Conn, err = next(ctx, network, addr); err != nil {
			c.undialed = fmt.Errorf("dialing: %w", err) // go-redis unwraps it once
			c.Conn, _ = net.Pipe()                      // for its other methods
		}
		c.heard.Store(n.now())
		return c, nil
	}
}

// ProcessHook implements [redis.Hook].
func (dialHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (dialHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A conn is a connection that notes when it last received data.
type conn struct {
	net.Conn
	peer        *peer
	undialed    error        // why the dial failed; Read and Write return it
	sent, heard atomic.Int64 // moments
}

func (c *conn) Write(b []byte) (int, error) {
	if c.undialed != nil {
		return 0, c.undialed
	}
	c.sent.Store(c.peer.now())
	n, err := c.Conn.Write(b)
	if err != nil {
		c.failed(err)
	}
	return n, err
}

func (c *conn) Read(b []byte) (int, error) {
	if c.undialed != nil {
		return 0, c.undialed
	}
	n, err := c.Conn.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		// The deadline has passed, but perhaps this goroutine could not run before.
		_ = c.Conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		n, err = c.Conn.Read(b)
	}
	if n > 0 {
		c.heard.Store(c.peer.now())
	}
	if err != nil {
		c.failed(err)
	}
	return n, err
}

// failed makes those connections suspect that have received nothing since this one
// was written to. It does nothing if the call had no time left to wait.
func (c *conn) failed(err error) {
	sent := c.sent.Load()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) && time.Duration(c.peer.now()-sent) < c.peer.timeout/2 {
		return
	}
	c.peer.suspect.Raise(sent)
}

var errSuspect = errors.New("the connection is suspect")

// SyscallConn is called by go-redis to find out whether the server has closed an
// idle connection. A suspect connection returns an error, so go-redis closes it.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	switch {
	case c.undialed != nil:
		return nil, c.undialed
	case c.heard.Load() <= c.peer.suspect.Load():
		return nil, errSuspect
	}
	return c.Conn.(syscall.Conn).SyscallConn()
}

func (c *conn) SetReadDeadline(t time.Time) error {
	return c.Conn.SetReadDeadline(c.bounded(t))
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.Conn.SetWriteDeadline(c.bounded(t))
}

// bounded returns the deadline, or the end of the timeout if that is earlier.
func (c *conn) bounded(t time.Time) time.Time {
	if end := time.Now().Add(c.peer.timeout); end.Before(t) {
		return end
	}
	return t
}
