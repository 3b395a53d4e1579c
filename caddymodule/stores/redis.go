package stores

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/secret"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// RedisStore keeps the state of any number of gateways in Redis: one server, a
// Sentinel set or a cluster. Exactly one of URL, Cluster and Sentinel is
// given. Placeholders are expanded in addresses, names and paths.
type RedisStore struct {
	// One server: redis://, rediss:// for TLS, or unix://, such as
	// rediss://user@host:6379/0. A password does not belong here.
	URL string `json:"url,omitempty"`
	// Some host:port of a cluster; the others are found.
	Cluster []string `json:"cluster,omitempty"`
	// The name of a Sentinel set's master, and host:port of its sentinels.
	Master   string   `json:"master,omitempty"`
	Sentinel []string `json:"sentinel,omitempty"`

	// The ACL user, and where its password is found.
	Username string      `json:"username,omitempty"`
	Password *secret.Ref `json:"password,omitempty"`
	// The same for the sentinels themselves. Default: no authentication.
	SentinelUsername string      `json:"sentinel_username,omitempty"`
	SentinelPassword *secret.Ref `json:"sentinel_password,omitempty"`

	// The number of the database, if the URL names none; a cluster has only 0.
	// Default: 0.
	DB *int `json:"db,omitempty"`

	// Speak TLS to a cluster or a Sentinel set. Default: false.
	TLS bool `json:"tls,omitempty"`
	// A PEM file of authorities to trust in place of the system's.
	CAFile string `json:"ca_file,omitempty"`
	// The name in the servers' certificates, if they are reached by another.
	ServerName string `json:"server_name,omitempty"`

	// How the names of all Redis keys begin. Gateways with different prefixes
	// do not meet. Default: `cg:`.
	Prefix string `json:"prefix,omitempty"`

	// How long settling one request may take in all. Default: 200ms.
	SettleTimeout caddy.Duration `json:"settle_timeout,omitempty"`
	// How long a change of a key may take. Default: 2s.
	ChangeTimeout caddy.Duration `json:"change_timeout,omitempty"`
	// How long one dial, read, write or wait for a connection may take.
	// Default: 100ms.
	IOTimeout caddy.Duration `json:"io_timeout,omitempty"`
	// The largest number of connections to one server. Default: 10 per CPU, at
	// least 32.
	PoolSize int `json:"pool_size,omitempty"`
	// The largest number of live nonces of one key; beyond it requests of that
	// key are answered with 503. Default: 1000000; negative: no cap.
	MaxNoncesPerKey int `json:"max_nonces_per_key,omitempty"`
	// Start although the user may not read min-replicas-to-write. Default: false.
	AcceptReplicasUnverified bool `json:"accept_replicas_unverified,omitempty"`

	options redis.Options
}

// CaddyModule returns the Caddy module information.
func (*RedisStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "card_gateway.stores.redis", New: func() caddy.Module { return new(RedisStore) }}
}

// Provision expands placeholders and reads the passwords. It connects to
// nothing.
func (s *RedisStore) Provision(caddy.Context) (err error) {
	texts := []*string{&s.URL, &s.Master, &s.Username, &s.SentinelUsername, &s.CAFile, &s.ServerName, &s.Prefix}
	for _, list := range [][]string{s.Cluster, s.Sentinel} {
		for i := range list {
			texts = append(texts, &list[i])
		}
	}
	if err := directive.Expand(texts...); err != nil {
		return err
	}
	if s.CAFile != "" {
		if s.CAFile, err = filepath.Abs(s.CAFile); err != nil {
			return fmt.Errorf("ca_file: %w", err)
		}
	}
	s.options = redis.Options{
		Options: s.connections(),
		Prefix:  s.Prefix, SettleTimeout: time.Duration(s.SettleTimeout), ChangeTimeout: time.Duration(s.ChangeTimeout), MaxNoncesPerKey: s.MaxNoncesPerKey,
		AcceptReplicasUnverified: s.AcceptReplicasUnverified,
	}
	if err := s.readPasswords(); err != nil {
		return err
	}
	return s.options.Check()
}

// connections returns the options of the connections, without passwords.
func (s *RedisStore) connections() rpc.Options {
	return rpc.Options{
		URL: s.URL, ClusterAddrs: s.Cluster, SentinelMaster: s.Master, SentinelAddrs: s.Sentinel,
		Username: s.Username, SentinelUsername: s.SentinelUsername, DB: s.DB,
		TLS: s.TLS, CAFile: s.CAFile, ServerName: s.ServerName,
		IOTimeout: time.Duration(s.IOTimeout), PoolSize: s.PoolSize, Logger: storeLog, Queue: meter.CountQueue,
	}
}

func (s *RedisStore) readPasswords() (err error) {
	if s.Password != nil {
		if s.options.Password, err = s.Password.Read(); err != nil {
			return fmt.Errorf("redis password: %w", err)
		}
	}
	if s.SentinelPassword != nil {
		if s.options.SentinelPassword, err = s.SentinelPassword.Read(); err != nil {
			return fmt.Errorf("redis sentinel_password: %w", err)
		}
	}
	return nil
}

// Place contains all options of the connections, so that a reload with another
// password or timeout opens new ones. A changed password in the same file or
// variable is a change too. The state itself is in Redis.
func (s *RedisStore) Place() string {
	return fmt.Sprintf("redis:%d:%+v", s.options.Database(), s.connection()) // the database is a pointer in the options
}

func (s *RedisStore) connection() any {
	options := s.options
	options.Logger, options.Queue, options.DB = nil, nil, nil
	options.Password, options.SentinelPassword = fingerprint(options.Password), fingerprint(options.SentinelPassword)
	return options
}

func (s *RedisStore) maxWindow() time.Duration { return redis.MaxWindow }

// Open returns the backend. It connects to nothing.
func (s *RedisStore) Open(string) (store.Backend, error) {
	return redis.New(s.options)
}

// Examine returns what each check of the servers finds, by connections of its own. It
// writes nothing.
func (s *RedisStore) Examine(ctx context.Context) ([]store.Finding, error) {
	options := s.options
	options.Logger, options.Queue = nil, nil
	opened, err := redis.New(options)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return opened.Examine(ctx), nil
}

// fingerprint returns a hash of a secret, to compare secrets without showing
// them.
func fingerprint(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("card-gateway secret reference\n" + secret))
	return hex.EncodeToString(sum[:8])
}

// Interface guard
var _ caddyfile.Unmarshaler = (*RedisStore)(nil)

// UnmarshalCaddyfile reads one of
//
//	redis <url> [password env <name> | file <path>]
//	redis cluster <address...>
//	redis sentinel <master> <address...>
//
// with an optional block:
//
//	{
//	    username <name>
//	    password env <name> | file <path>
//	    sentinel_username <name>
//	    sentinel_password env <name> | file <path>
//	    db <number>
//	    tls
//	    ca_file <path>
//	    server_name <name>
//	    prefix <text>
//	    settle_timeout <time span>
//	    change_timeout <time span>
//	    io_timeout <time span>
//	    pool_size <number>
//	    max_nonces_per_key <number>
//	    accept_replicas_unverified
//	}
func (s *RedisStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	at := directive.At(d)
	if err := s.parseWhere(d); err != nil {
		return err
	}
	secretOption := func(name string, into **secret.Ref) directive.Option {
		return directive.Option{Name: name, Read: func(d *caddyfile.Dispenser) (err error) {
			if *into != nil {
				return d.Errf("%s is given a second time; write one line", name)
			}
			*into, err = directive.Secret(d)
			return err
		}}
	}
	err := directive.Block(d, "store redis", []directive.Option{
		directive.Text("username", "a name", &s.Username),
		secretOption("password", &s.Password),
		directive.Text("sentinel_username", "a name", &s.SentinelUsername),
		secretOption("sentinel_password", &s.SentinelPassword),
		{Name: "db", Read: func(d *caddyfile.Dispenser) error {
			s.DB = new(int)
			return directive.Number("db", 0, s.DB).Read(d)
		}},
		directive.Flag("tls", &s.TLS),
		directive.Text("ca_file", "a path", &s.CAFile),
		directive.Text("server_name", "a name", &s.ServerName),
		directive.Text("prefix", "a text", &s.Prefix),
		directive.Duration("settle_timeout", &s.SettleTimeout),
		directive.Duration("change_timeout", &s.ChangeTimeout),
		directive.Duration("io_timeout", &s.IOTimeout),
		directive.Number("pool_size", 1, &s.PoolSize),
		directive.Number("max_nonces_per_key", 1, &s.MaxNoncesPerKey),
		directive.Flag("accept_replicas_unverified", &s.AcceptReplicasUnverified),
	})
	if err != nil || strings.ContainsAny(s.URL+strings.Join(slices.Concat(s.Cluster, s.Sentinel), ""), "{}") { // placeholders: Provision checks
		return err
	}
	if options := s.connections(); options.Check() != nil {
		return at(options.Check())
	}
	return nil
}

func (s *RedisStore) parseWhere(d *caddyfile.Dispenser) (err error) {
	if !d.NextArg() {
		return d.Err("store redis needs a URL, `cluster` and addresses, or `sentinel`, a master and addresses")
	}
	switch d.Val() {
	case "cluster":
		if s.Cluster = d.RemainingArgs(); len(s.Cluster) == 0 {
			return d.Err("store redis cluster needs one or more addresses host:port")
		}
	case "sentinel":
		args := d.RemainingArgs()
		if len(args) < 2 {
			return d.Err("store redis sentinel needs the name of the master and one or more addresses host:port")
		}
		if strings.Contains(args[0], ":") {
			return d.Errf("store redis sentinel: %s is an address; the name of the master comes first", args[0])
		}
		s.Master, s.Sentinel = args[0], args[1:]
	default:
		s.URL = d.Val()
		if d.NextArg() {
			if d.Val() != "password" {
				return d.Errf("unexpected argument %q; expected password env NAME, or password file PATH", d.Val())
			}
			if s.Password, err = directive.Secret(d); err != nil {
				return err
			}
		}
	}
	return directive.NoMore(d)
}
