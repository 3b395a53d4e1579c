package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// newClient returns a client, which connects at its first use.
func (o *Options) newClient() (redis.UniversalClient, error) {
	quietOnce.Do(func() { redis.SetLogger(quiet{}) })
	all, network, err := o.settings()
	if err != nil {
		return nil, err
	}
	hook := o.network
	switch o.topology() {
	case topologyCluster:
		c := all.Cluster()
		c.DisableRoutingPolicies = true
		client := redis.NewClusterClient(c)
		client.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
		return client, nil
	case topologySentinel:
		return hooked(hooked(redis.NewFailoverClient(all.Failover()), hook), &lastMaster{dial: all.Dialer, timeout: o.IOTimeout}), nil
	default:
		c := all.Simple()
		c.Network = network
		return hooked(redis.NewClient(c), hook), nil
	}
}

// settings returns the settings of go-redis for the topology, and the network of
// a single server.
func (o *Options) settings() (all *redis.UniversalOptions, network string, err error) {
	all = o.common()
	switch o.topology() {
	case topologyCluster:
		all.Addrs = o.ClusterAddrs
		all.TLSConfig, err = o.tlsConfig()
	case topologySentinel:
		all.Addrs, all.MasterName = o.SentinelAddrs, o.SentinelMaster
		all.TLSConfig, err = o.tlsConfig()
	default:
		network, err = o.single(all)
	}
	all.Dialer = o.guard(all.TLSConfig)
	return all, network, err
}

// guard returns the function that makes all connections, also those of go-redis to
// sentinels. config is nil without TLS.
func (o *Options) guard(config *tls.Config) dialer {
	dial := o.dialer
	plain := &net.Dialer{Timeout: o.IOTimeout}
	switch {
	case dial != nil:
	case config != nil:
		dial = (&tls.Dialer{NetDialer: plain, Config: config}).DialContext
	default:
		dial = plain.DialContext
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

// common returns the settings of go-redis for every topology. With them go-redis
// repeats nothing: runOn decides whether a call may be repeated.
func (o *Options) common() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Username: o.Username, Password: o.Password, DB: o.DB,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		MaxRetries: -1, DialerRetries: 1, MaxRedirects: 5,
		MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 10 * time.Millisecond, // between redirections
		DialTimeout: o.IOTimeout, PoolTimeout: o.IOTimeout, ReadTimeout: o.IOTimeout + deadlineSlack, WriteTimeout: o.IOTimeout + deadlineSlack,
		ContextTimeoutEnabled: true, PoolSize: o.PoolSize, PipelinePoolSize: -1, DisableIdentity: true,
		ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		MaintNotificationsConfig: noMaintenance(),
	}
}

// single adds the settings in the URL of one server and returns the network.
func (o *Options) single(all *redis.UniversalOptions) (network string, err error) {
	address, parameters, _ := strings.Cut(o.URL, "?")
	if parameters != "" && !(strings.HasPrefix(address, "unix:") && strings.HasPrefix(parameters, "db=") && !strings.ContainsAny(parameters, "&;")) {
		return "", errors.New("redis: parameters in the URL are not understood; use the options")
	}
	c, err := redis.ParseURL(o.URL)
	if err != nil {
		// Not wrapped: the text repeats the URL, which may hold a password.
		return "", errors.New("redis: the URL is not understood; expected redis://, rediss:// or unix://, such as rediss://user@host:6379/0")
	}
	if c.Password != "" && o.Password != "" {
		return "", errors.New("redis: there is a password in the URL and another one beside it")
	}
	setDefault(&c.Username, o.Username)
	setDefault(&c.Password, o.Password)
	setDefault(&c.DB, o.DB)
	all.Addrs, all.Username, all.Password, all.DB = []string{c.Addr}, c.Username, c.Password, c.DB
	withTLS := *o
	withTLS.TLS = c.TLSConfig != nil
	if all.TLSConfig, err = withTLS.tlsConfig(); err != nil {
		return "", err
	}
	if all.TLSConfig != nil {
		setDefault(&all.TLSConfig.ServerName, c.TLSConfig.ServerName)
	}
	return c.Network, nil
}

// bufferSize of a connection: a settle and its reply are under 2 KiB.
const bufferSize = 8 << 10

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// tlsConfig returns nil without TLS.
func (o *Options) tlsConfig() (*tls.Config, error) {
	if !o.TLS {
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

// quiet drops the lines that go-redis would write to stderr. Calls return all
// errors that matter.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

var quietOnce sync.Once

// node returns a client for one server of a sentinel set, or for a replica of the
// single server: with the same settings and another address.
func (o *Options) node(addr string) *redis.Client {
	all, _, _ := o.settings() // newClient has checked them
	all.Addrs = []string{addr}
	return hooked(redis.NewClient(all.Simple()), newNetwork(o.IOTimeout))
}
