package caddymodule

import (
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/card-gateway/card-gateway/caddymodule/secret"
)

// UnmarshalCaddyfile reads `file [<directory>]`.
func (s *FileStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		s.Dir = d.Val()
	}
	return noMore(d)
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*FileStore)(nil)
)

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
//	}
func (s *RedisStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if err := s.parseWhere(d); err != nil {
		return err
	}
	secretOption := func(name string, into **secret.Ref) option {
		return option{name: name, read: func(d *caddyfile.Dispenser) (err error) {
			if *into != nil {
				return d.Errf("%s is given a second time; write one line", name)
			}
			*into, err = parseSecretRef(d)
			return err
		}}
	}
	return readBlock(d, "store redis", []option{
		textOption("username", "a name", &s.Username),
		secretOption("password", &s.Password),
		textOption("sentinel_username", "a name", &s.SentinelUsername),
		secretOption("sentinel_password", &s.SentinelPassword),
		numberOption("db", 0, &s.DB),
		flagOption("tls", &s.TLS),
		textOption("ca_file", "a path", &s.CAFile),
		textOption("server_name", "a name", &s.ServerName),
		textOption("prefix", "a text", &s.Prefix),
		durationOption("settle_timeout", &s.SettleTimeout),
		durationOption("change_timeout", &s.ChangeTimeout),
		durationOption("io_timeout", &s.IOTimeout),
		numberOption("pool_size", 1, &s.PoolSize),
		numberOption("max_nonces_per_key", 1, &s.MaxNoncesPerKey),
	})
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
		if err := withoutPassword(s.URL); err != nil {
			return d.WrapErr(err)
		}
		if d.NextArg() {
			if d.Val() != "password" {
				return d.Errf("unexpected argument %q; expected password env NAME, or password file PATH", d.Val())
			}
			if s.Password, err = parseSecretRef(d); err != nil {
				return err
			}
		}
	}
	return noMore(d)
}
