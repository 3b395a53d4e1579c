package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say where Redis is and how it is spoken to. Exactly one of URL,
// ClusterAddrs and SentinelAddrs is given.
type Options struct {
	// URL of one server: redis://, rediss:// (TLS) or unix://, such as
	// rediss://user@host:6379/0. A password belongs into Password. Parameters
	// behind ? are refused, but for the db of unix://path?db=0.
	URL string
	// ClusterAddrs are some host:port of a cluster; the others are found.
	ClusterAddrs []string
	// SentinelMaster is the name of the set and SentinelAddrs are host:port of
	// the sentinels.
	SentinelMaster string
	SentinelAddrs  []string

	// Username and Password for the servers. The password is the secret
	// itself; whoever configures it resolves references. With a Username and
	// without a Password, or the other way round, Redis decides.
	Username, Password string
	// SentinelUsername and SentinelPassword are those of the sentinels, which
	// do not take over the servers'.
	SentinelUsername, SentinelPassword string
	// DB is the number of the database. A cluster has only 0.
	DB int

	// TLS speaks TLS to a cluster or a sentinel set and its sentinels. For one
	// server the URL says so.
	TLS bool
	// CAFile is a PEM file of authorities to trust instead of the system's.
	CAFile string
	// ServerName is the name in the servers' certificates, if it is not the
	// name that they are reached by.
	ServerName string

	// Prefix begins the name of every Redis key. Gateways with different
	// prefixes do not meet. Default: "cg:".
	Prefix string

	// SettleTimeout is how long settling a request may take from the first
	// byte to the last, whatever the client does meanwhile. Default: 200 ms.
	SettleTimeout time.Duration
	// ChangeTimeout is how long changes of keys and looks at the servers may
	// take. Default: 2 s.
	ChangeTimeout time.Duration
	// IOTimeout is how long one dial, read, write or wait for a connection may
	// take. Default: 100 ms.
	IOTimeout time.Duration
	// PoolSize is the largest number of connections to one server. Default: 10
	// per CPU, at least 32.
	PoolSize int

	// MaxNoncesPerKey caps the live nonces of one key; the next request gets
	// [store.ErrFull]. 0 means a million, negative no cap. All nonces together
	// are capped by the server's own maxmemory.
	MaxNoncesPerKey int

	// Logger gets what an operator should know. Default: none.
	Logger *slog.Logger

	// claimClock makes Claim.Now the clock of everything. Tests alone set it.
	claimClock bool
	// dialer, when set, replaces the network. Tests alone set it.
	dialer dialer
}

const defaultMaxNonces = 1_000_000

func (o Options) withDefaults() (Options, error) {
	if err := o.check(); err != nil {
		return o, fmt.Errorf("redis: %w", err)
	}
	o.ClusterAddrs, o.SentinelAddrs = slices.Clone(o.ClusterAddrs), slices.Clone(o.SentinelAddrs)
	setDefault(&o.Prefix, "cg:")
	setDefault(&o.SettleTimeout, 200*time.Millisecond)
	setDefault(&o.ChangeTimeout, 2*time.Second)
	setDefault(&o.IOTimeout, 100*time.Millisecond)
	setDefault(&o.PoolSize, max(32, 10*runtime.GOMAXPROCS(0)))
	setDefault(&o.MaxNoncesPerKey, defaultMaxNonces)
	setDefault(&o.Logger, slog.New(slog.DiscardHandler))
	return o, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
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
	case strings.ContainsAny(o.Prefix, "{} \r\n"):
		return fmt.Errorf("prefix %q must not hold braces, spaces or line ends", o.Prefix)
	case o.SettleTimeout < 0 || o.ChangeTimeout < 0 || o.IOTimeout < 0 || o.PoolSize < 0:
		return errors.New("timeouts and the size of the pool must not be negative")
	}
	return nil
}

// newClient makes the client; it connects when it is first used.
func (o *Options) newClient() (redis.UniversalClient, error) {
	quietOnce.Do(func() { redis.SetLogger(quiet{}) })
	if o.URL != "" {
		return o.newSingle()
	}
	config, err := o.tlsConfig(o.TLS)
	if err != nil {
		return nil, err
	}
	if len(o.ClusterAddrs) > 0 {
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: o.ClusterAddrs, Username: o.Username, Password: o.Password, TLSConfig: config,
			MaxRedirects: 5, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 10 * time.Millisecond,
			MaxRetries: -1, DialerRetries: 1, DialTimeout: o.IOTimeout, ReadTimeout: o.IOTimeout,
			WriteTimeout: o.IOTimeout, PoolTimeout: o.IOTimeout, ContextTimeoutEnabled: true,
			PoolSize: o.PoolSize, PipelinePoolSize: -1, DisableIdentity: true, DisableRoutingPolicies: true,
			ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
			MaintNotificationsConfig: noMaintenance(), Dialer: o.dialer,
		}), nil
	}
	return redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: o.SentinelMaster, SentinelAddrs: o.SentinelAddrs, DB: o.DB,
		Username: o.Username, Password: o.Password, TLSConfig: config,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		MaxRetries: -1, DialerRetries: 1, DialTimeout: o.IOTimeout, ReadTimeout: o.IOTimeout,
		WriteTimeout: o.IOTimeout, PoolTimeout: o.IOTimeout, ContextTimeoutEnabled: true,
		PoolSize: o.PoolSize, PipelinePoolSize: -1, DisableIdentity: true,
		ReadBufferSize: bufferSize, WriteBufferSize: bufferSize, Dialer: o.dialer,
	}), nil
}

func (o *Options) newSingle() (redis.UniversalClient, error) {
	address, parameters, _ := strings.Cut(o.URL, "?")
	if parameters != "" && !(strings.HasPrefix(address, "unix:") && strings.HasPrefix(parameters, "db=") && !strings.ContainsAny(parameters, "&;")) {
		return nil, errors.New("redis: parameters in the URL are not understood; use the options")
	}
	c, err := redis.ParseURL(o.URL)
	if err != nil {
		// Not wrapped: the text repeats the URL, which may hold a password.
		return nil, errors.New("redis: the URL is not understood; expected redis://, rediss:// or unix://, such as rediss://user@host:6379/0")
	}
	if c.Password != "" && o.Password != "" {
		return nil, errors.New("redis: there is a password in the URL and another one beside it")
	}
	setDefault(&c.Username, o.Username)
	setDefault(&c.Password, o.Password)
	setDefault(&c.DB, o.DB)
	config, err := o.tlsConfig(c.TLSConfig != nil)
	if err != nil {
		return nil, err
	}
	if config != nil && config.ServerName == "" {
		config.ServerName = c.TLSConfig.ServerName
	}
	c.TLSConfig = config
	c.MaxRetries, c.DialerRetries, c.ContextTimeoutEnabled = -1, 1, true
	c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.IOTimeout, o.IOTimeout, o.IOTimeout, o.IOTimeout
	c.PoolSize, c.PipelinePoolSize, c.DisableIdentity = o.PoolSize, -1, true
	c.ReadBufferSize, c.WriteBufferSize = bufferSize, bufferSize
	c.MaintNotificationsConfig, c.Dialer = noMaintenance(), o.dialer
	return redis.NewClient(c), nil
}

// bufferSize of a connection: a settle and its reply are under 2 KiB.
const bufferSize = 8 << 10

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// tlsConfig returns nil when TLS is not wanted.
func (o *Options) tlsConfig(wanted bool) (*tls.Config, error) {
	if !wanted {
		if o.CAFile != "" || o.ServerName != "" {
			return nil, errors.New("redis: an authority or a server name is given, but no TLS; use rediss:// or switch TLS on")
		}
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redis: reading the authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redis: no certificate in %s; expected PEM", o.CAFile)
		}
	}
	return config, nil
}

// quiet drops what go-redis would write to stderr; every error that matters
// comes back from the call.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

var quietOnce sync.Once
