package server

import (
	"context"
	"fmt"
	"os"
)

// proxied is reverse_proxy with options that make it fast: connections are
// kept, and answers are not decompressed.
const proxied = `reverse_proxy %s {
			transport http {
				compression off
				keepalive_idle_conns 1024
				keepalive_idle_conns_per_host 1024
			}
		}`

// plain is Caddy without the gateway.
const plain = `{
	admin off
	persist_config off
	log {
		level ERROR
	}
}
http://:%s {
	bind 127.0.0.1
	handle /api/v1/* {
		%s
	}
}
`

func startCaddy(ctx context.Context, s *Setup) (*Server, error) {
	p, err := newProcess(ctx, s.Dir, "caddy")
	if err != nil {
		return nil, err
	}
	return &Server{front: p}, p.runCaddy(ctx, s, fmt.Sprintf(plain, p.port(), fmt.Sprintf(proxied, s.Issuer)))
}

// runCaddy writes the Caddyfile and starts the binary with it.
func (p *process) runCaddy(ctx context.Context, s *Setup, caddyfile string) error {
	if err := os.WriteFile(p.path("Caddyfile"), []byte(caddyfile), 0o600); err != nil {
		return err
	}
	return p.start(ctx, s.Env, s.Binary, "run", "--config", p.path("Caddyfile"), "--adapter", "caddyfile")
}
