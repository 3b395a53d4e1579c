package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options are the place of Redis and the settings of the connections. Exactly one of
// URL, ClusterAddrs and SentinelAddrs is given.
type Options struct {
	// URL of one server: redis://, rediss:// (TLS) or unix://, such as
	// rediss://user@host:6379/0 or unix:///path?db=0. The password is in Password.
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
	// DB is the number of the database; nil is that of the URL, or 0. A cluster has
	// only 0.
	DB *int

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
	if err := o.Check(); err != nil {
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

// Check returns why the options cannot be used. What the URL and an option both say must
// agree. It does no I/O.
func (o *Options) Check() error {
	cluster, sentinels := len(o.ClusterAddrs) > 0, len(o.SentinelAddrs) > 0
	switch {
	case (o.URL != "") == (cluster || sentinels), cluster && sentinels:
		return errors.New("give one of a URL, the addresses of a cluster, or the addresses of sentinels")
	case (o.SentinelMaster != "") != sentinels:
		return errors.New("sentinels need the name of their master, and the other way round")
	case cluster && o.Database() != 0:
		return fmt.Errorf("a cluster has no database %d, only 0", o.Database())
	case o.Database() < 0:
		return fmt.Errorf("database %d; want 0 or more", o.Database())
	case o.IOTimeout < 0 || o.PoolSize < 0:
		return errors.New("timeouts and the size of the pool must not be negative")
	}
	if err := checkAddresses(slices.Concat(o.ClusterAddrs, o.SentinelAddrs)); err != nil {
		return err
	}
	secure := o.TLS
	if o.URL != "" {
		s, err := parseServer(o.URL)
		switch {
		case err != nil:
			return err
		case s.username != "" && o.Username != "" && s.username != o.Username, s.db != "" && o.DB != nil && s.db != strconv.Itoa(*o.DB):
			return errors.New("the URL names one user or database, and the option username or db another; write each once")
		case o.TLS && !s.tls:
			return errors.New("the option tls is for a cluster and a sentinel set, and this URL is without TLS; write rediss://")
		}
		secure = s.tls
	}
	if !secure && (o.CAFile != "" || o.ServerName != "") {
		return errors.New("an authority or a server name is given, but no TLS; use rediss:// or switch TLS on")
	}
	return nil
}

// Database returns the number that the options give, without the URL's.
func (o *Options) Database() int { return *cmp.Or(o.DB, new(int)) }

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
	if o.Topology() == Single {
		return credentials.ReplaceAllString(o.URL, "://")
	}
	return strings.TrimPrefix(o.SentinelMaster+"@", "@") + strings.Join(slices.Concat(o.ClusterAddrs, o.SentinelAddrs), ",")
}

var credentials = regexp.MustCompile("://.*@")

// A serverURL is what the URL of one server says.
type serverURL struct {
	tls                    bool
	username, host, socket string
	port, db               string // empty: not said
}

const (
	urlUser     = `(?:([\w.~+-]+)@)?`
	urlPort     = `([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])`
	urlDatabase = `(0|[1-9][0-9]{0,8})`
)

var serverText = regexp.MustCompile(`^(rediss?)://` + urlUser + `(\[[^][/?#@%]+\]|[^][:/?#@%\s]+)(?::` + urlPort + `)?(?:/` + urlDatabase + `?)?$|^unix://` + urlUser + `(/[^?#%]+)(?:\?db=` + urlDatabase + `)?$`)

// parseServer reads the URL of one server. The error does not repeat it, because it may
// hold a password.
func parseServer(text string) (serverURL, error) {
	m := serverText.FindStringSubmatch(text)
	if m == nil {
		return serverURL{}, errors.New("the URL is not understood; want redis://, rediss:// or unix://, such as rediss://user@host:6379/0 or unix:///path?db=0. The password does not belong there, where Caddy would show it: write password env NAME, and the rest as options")
	}
	return serverURL{tls: m[1] == "rediss", username: m[2] + m[6], host: strings.Trim(m[3], "[]"), port: m[4], db: m[5] + m[8], socket: m[7]}, nil
}

// checkAddresses returns an error for an address that is not host:port, or is given
// twice. One with more in it is not repeated, because that may be a password.
func checkAddresses(all []string) error {
	for i, text := range all {
		s, err := parseServer("redis://" + text)
		switch {
		case strings.ContainsAny(text, "@") || strings.Contains(text, "://"):
			return errors.New("one of the addresses is not host:port, such as 10.0.0.7:6379: users and passwords are options, and TLS is the option tls")
		case err != nil || s.port == "" || strings.Contains(text, "/"):
			return fmt.Errorf("%q is not host:port with a port from 1 to 65535, such as 10.0.0.7:6379 or [fd00::7]:6379; put blanks between addresses", text)
		case slices.Contains(all[:i], text):
			return fmt.Errorf("%q is given twice", text)
		}
	}
	return nil
}

// address returns the address of the server, as go-redis takes it: the path of a socket
// begins with a slash.
func (s *serverURL) address() string {
	if s.socket != "" {
		return s.socket
	}
	return net.JoinHostPort(s.host, cmp.Or(s.port, "6379"))
}
