package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/card-gateway/card-gateway/bench/load"
)

// A Setup has what the servers of one scenario share.
type Setup struct {
	Dir     string     // where each server has its directory
	Binary  string     // the gateway, which is also plain Caddy
	Filler  string     // the command that makes nonces live in a gateway's store
	Env     []string   // further variables for the gateway and for plain Caddy
	Traefik string     // the program, for the kind of that name
	Issuer  string     // host:port of the issuer
	Keys    []load.Key // the keys that exist
	Limit   Limit      // of the operation that is called, for each key

	master []byte // the line of the master key file of all gateways
}

// A Limit is a number of requests in a number of seconds.
type Limit struct{ Requests, Seconds int }

// A Server is one of those that are compared, with its Redis if it has one.
type Server struct {
	Kind  *Kind
	front *process
	redis *redisServer
	fill  func(ctx context.Context, nonces int) error // nil: it has no store of the gateway's
	run   func() error                                // starts a gateway that has ended
}

// A Kind is one kind of server in front of an issuer.
type Kind struct {
	Name, Title string
	// Judges: it checks signatures, nonces, locks and limits.
	Judges bool
	start  func(context.Context, *Setup) (*Server, error)
}

// Baseline is the kind that the others are compared with.
const Baseline = "caddy"

// Traefik is the kind that no distribution has; its program is given by path.
const Traefik = "traefik"

// Kinds are all of them, in the order of the tables.
var Kinds = []*Kind{
	{Name: Baseline, Title: "Caddy, reverse_proxy", start: startCaddy},
	{Name: "nginx", Title: "nginx", start: startNginx},
	{Name: "haproxy", Title: "HAProxy without Lua", Judges: true, start: startHAProxy},
	{Name: Traefik, Title: "Traefik, limit only", start: startTraefik},
	{Name: "nginx-lua-redis", Title: "nginx + Lua + Redis", Judges: true, start: startRival},
	{Name: "forward-embedded", Title: "gateway, card_forward, embedded", Judges: true, start: gatewayKind{}.start},
	{Name: "forward-redis", Title: "gateway, card_forward, Redis", Judges: true, start: gatewayKind{onRedis: true}.start},
	{Name: "proxy-embedded", Title: "gateway, reverse_proxy, embedded", Judges: true, start: gatewayKind{proxies: true}.start},
	{Name: "proxy-redis", Title: "gateway, reverse_proxy, Redis", Judges: true, start: gatewayKind{proxies: true, onRedis: true}.start},
	{Name: "assert-eddsa", Title: "gateway, card_forward, embedded, assert EdDSA", Judges: true, start: gatewayKind{asserts: "EdDSA"}.start},
	{Name: "assert-hs256", Title: "gateway, card_forward, embedded, assert HS256", Judges: true, start: gatewayKind{asserts: "HS256"}.start},
}

// KindOf returns the kind of a name, or nil.
func KindOf(name string) *Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// Start runs a server of the kind, with its keys, until it is ready.
func (k *Kind) Start(ctx context.Context, s *Setup) (*Server, error) {
	server, err := k.start(ctx, s)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", k.Name, err), server.Close())
	}
	server.Kind = k
	return server, nil
}

// Addr is the host:port that the server serves on.
func (s *Server) Addr() string { return s.front.addr }

// Fill makes nonces live in the store of a gateway, which no request has used.
// It returns false for other servers. A gateway with an embedded store is
// started anew.
func (s *Server) Fill(ctx context.Context, nonces int) (filled bool, err error) {
	if s.fill == nil {
		return false, nil
	}
	return true, s.fill(ctx, nonces)
}

// Close ends the processes of the server.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.front.Close(), s.redis.Close())
}

// A Usage is the CPU and memory that a server has used so far.
type Usage struct {
	Front, Redis                 time.Duration // of a CPU
	FrontResident, RedisResident int64         // bytes
}

// Usage returns the usage so far. That of the server is from /proc, that of
// Redis is as Redis counts it, to the microsecond.
func (s *Server) Usage(ctx context.Context) (Usage, error) {
	front, err := s.front.usage()
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Front: front.cpu, FrontResident: front.resident}
	if s.redis != nil {
		used, err := s.redis.usage(ctx)
		if err != nil {
			return Usage{}, err
		}
		u.Redis, u.RedisResident = used.cpu, used.resident
	}
	return u, nil
}
