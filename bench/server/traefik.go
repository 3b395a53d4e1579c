package server

import (
	"context"
	"errors"
)

// startTraefik runs the Traefik that a path was given for, with a limit for each key and
// no other check.
func startTraefik(ctx context.Context, s *Setup) (*Server, error) {
	p, err := newProcess(ctx, s.Dir, "traefik")
	if err != nil {
		return nil, err
	}
	config := rivalConfig{Dir: p.dir, Port: p.port(), Issuer: s.Issuer, Limit: s.Limit}
	if err := errors.Join(p.configure("traefik.yml", "traefik.yml", config), p.configure("traefik-routes.yml", "routes.yml", config)); err != nil {
		return &Server{front: p}, err
	}
	return &Server{front: p}, p.start(ctx, s.Env, s.Traefik, "--configFile="+p.path("traefik.yml"))
}
