package server

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/bench/load"
)

// guarded is the gateway: port, admin socket, store, master key, limit, and the
// handler that forwards, assertions. Only errors are logged, as with plain Caddy. Failures
// never lock a key, because then all requests would be refused for that reason.
const guarded = `{
	admin unix/%[2]s
	persist_config off
	log {
		level ERROR
		format card
	}
	card_gateway {
		store %[3]s
		master_key file %[4]s
		lock_after 1000000000
		limit issue_card %[5]d/%[6]ds
	}
}
http://:%[1]s {
	bind 127.0.0.1
	handle /readyz {
		card_health ready
	}
	handle /api/v1/* {
		card_auth {
			max_body 1MiB
			%[8]s
		}
		card_rate_limit
		card_translate {
			upstream snake_case
		}
		%[7]s
	}
}
`

// storedInRedis waits longer for Redis than a gateway in production. The
// machine is busy on purpose, and a slow request should be measured and not
// refused.
const storedInRedis = `redis redis://%s/0 {
			max_nonces_per_key 100000000
			io_timeout 5s
			settle_timeout 5s
		}`

// A gatewayKind is how the gateway is configured.
type gatewayKind struct {
	proxies, onRedis bool
	asserts          string // the algorithm of assertions; empty: there are none
}

// start runs the gateway and makes the keys.
func (k gatewayKind) start(ctx context.Context, s *Setup) (*Server, error) {
	p, err := newProcess(ctx, s.Dir, "gateway")
	if err != nil {
		return nil, err
	}
	server := &Server{front: p}
	store := "file " + p.path("data")
	if k.onRedis {
		if server.redis, err = startRedis(ctx, s.Dir); err != nil {
			return server, err
		}
		store = fmt.Sprintf(storedInRedis, server.redis.addr)
	}
	forwards := "card_forward " + s.Issuer
	if k.proxies {
		forwards = fmt.Sprintf(proxied, s.Issuer)
	}
	if err := os.WriteFile(p.path("master.key"), s.masterKey(), 0o600); err != nil {
		return server, err
	}
	asserts := ""
	if k.asserts != "" {
		if err := os.WriteFile(p.path("assert.key"), []byte(newKey()), 0o600); err != nil {
			return server, err
		}
		asserts = "assert {\nalgorithm " + k.asserts + "\nkey file " + p.path("assert.key") + "\naudience issuer\n}"
	}
	caddyfile := fmt.Sprintf(guarded, p.port(), p.path("admin"), store, p.path("master.key"), s.Limit.Requests, s.Limit.Seconds, forwards, asserts)
	run := func() error { return p.runCaddy(ctx, s, caddyfile) }
	server.run = run
	server.fill = func(ctx context.Context, nonces int) error {
		if k.onRedis {
			return p.runOnce(ctx, s.Filler, "redis", "redis://"+server.redis.addr+"/0", strconv.Itoa(nonces))
		}
		if err := p.end(); err != nil {
			return err
		}
		return errors.Join(p.runOnce(ctx, s.Filler, "file", p.path("data"), strconv.Itoa(nonces)), run())
	}
	if err := run(); err != nil {
		return server, err
	}
	return server, p.importKeys(ctx, s.Keys)
}

// ready reports whether /readyz answers with 200.
func ready(ctx context.Context, addr string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Restart starts a gateway anew, and returns how long it took until it was ready.
func (s *Server) Restart(ctx context.Context) (time.Duration, error) {
	if err := s.front.end(); err != nil {
		return 0, err
	}
	begun := time.Now()
	err := s.run()
	if err == nil {
		err = s.front.await(ctx, func() bool { return ready(ctx, s.front.addr) })
	}
	return time.Since(begun), err
}

// MakeKeys makes keys in the Redis of a gateway, and returns them.
func (s *Server) MakeKeys(ctx context.Context, filler string, count int) (made []load.Key, err error) {
	cmd := exec.CommandContext(ctx, filler, "keys", "redis://"+s.redis.addr+"/0", strconv.Itoa(count), s.front.path("master.key")) //nolint:gosec // our own arguments
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("making keys: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		id, secret, _ := strings.Cut(strings.TrimSpace(line), " ")
		made = append(made, load.Key{ID: id, Secret: secret})
	}
	return made, nil
}

// Ask makes a call of the gateway's admin API that reads, and returns how long it took.
func (s *Server) Ask(ctx context.Context, path string) (time.Duration, error) {
	admin := s.front.admin()
	defer admin.CloseIdleConnections()
	begun := time.Now()
	err := admin.call(ctx, http.MethodGet, path, nil)
	return time.Since(begun), err
}

// masterKey returns the line of a master key file. All gateways have the same,
// so that a sealed secret can be copied from one to another.
func (s *Setup) masterKey() []byte {
	if s.master == nil {
		s.master = []byte(newKey())
	}
	return s.master
}

// newKey returns the line of a key file.
func newKey() string {
	key := make([]byte, 32)
	rand.Read(key)
	return base64.StdEncoding.EncodeToString(key)
}
