package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
)

// startHAProxy runs HAProxy with the checks that it can do without Lua.
func startHAProxy(ctx context.Context, s *Setup) (*Server, error) {
	p, err := newProcess(ctx, s.Dir, "haproxy")
	if err != nil {
		return nil, err
	}
	server := &Server{front: p}
	var secrets, addresses, writers strings.Builder
	for _, key := range s.Keys {
		fmt.Fprintf(&secrets, "%s %s\n", key.ID, base64.StdEncoding.EncodeToString([]byte(key.Secret)))
		fmt.Fprintf(&addresses, "%s@127.0.0.1\n", key.ID)
		fmt.Fprintln(&writers, key.ID)
	}
	err = errors.Join(
		os.WriteFile(p.path("secrets"), []byte(secrets.String()), 0o600),
		os.WriteFile(p.path("addresses"), []byte(addresses.String()), 0o600),
		os.WriteFile(p.path("writers"), []byte(writers.String()), 0o600),
		p.configure("haproxy.cfg", "haproxy.cfg", rivalConfig{Dir: p.dir, Port: p.port(), Issuer: s.Issuer, Limit: s.Limit}),
	)
	if err != nil {
		return server, err
	}
	program, err := systemProgram("haproxy")
	if err != nil {
		return server, err
	}
	return server, p.start(ctx, nil, program, "-db", "-f", p.path("haproxy.cfg"))
}
