package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/bench/load"
	"github.com/card-gateway/card-gateway/bench/report"
	"github.com/card-gateway/card-gateway/bench/server"
)

// A bench is one run of everything that was chosen.
type bench struct {
	scenarios []scenario
	rounds    int
	span      time.Duration // of one measurement
	env       []string      // for the gateway and for plain Caddy
	dir       string        // of all files of the run
	binary    string        // the gateway
	traefik   string        // the program
	filler    string        // what makes nonces live
	out       io.Writer     // for messages during the run
}

// build compiles the gateway from the source tree at root, as `make build` does.
func (b *bench) build(ctx context.Context, root string) error {
	b.binary = filepath.Join(b.dir, "card-gateway")
	version := exec.CommandContext(ctx, "./version.sh")
	version.Dir = root
	stamps, err := version.Output()
	if err != nil {
		return fmt.Errorf("asking version.sh: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", strings.TrimSpace(string(stamps)), "-o", b.binary, "./cmd/card-gateway") //nolint:gosec // our own arguments
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the gateway: %w\n%s", err, out)
	}
	b.filler = filepath.Join(b.dir, "fill")
	cmd = exec.CommandContext(ctx, "go", "build", "-o", b.filler, "./store/storetest/fill") //nolint:gosec // our own arguments
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building what makes nonces live: %w\n%s", err, out)
	}
	return nil
}

// run measures every scenario.
func (b *bench) run(ctx context.Context) ([]report.Row, error) {
	issuer, err := server.StartIssuer(ctx, b.dir)
	if err != nil {
		return nil, errors.Join(err, issuer.Close())
	}
	var rows []report.Row
	var lanes []*lane
	for i := range b.scenarios {
		s := &b.scenarios[i]
		fmt.Fprintf(b.out, "%s: %s\n", s.name, s.title)
		if lanes, err = b.lanes(ctx, lanes, s, issuer); err != nil {
			break
		}
		var more []report.Row
		if more, err = b.runScenario(ctx, lanes); err != nil {
			break
		}
		rows = append(rows, more...)
	}
	return rows, errors.Join(err, closeAll(lanes), issuer.Close())
}

// lanes returns the servers of a scenario when they are ready. These are the
// servers of the scenario before if it goes on with them, otherwise new ones.
// It ends servers that are no longer needed.
func (b *bench) lanes(ctx context.Context, before []*lane, s *scenario, issuer *server.Server) (lanes []*lane, err error) {
	var over []*lane
	for _, l := range before {
		if s.goesOn && l.keys == s.keys && slices.Contains(s.servers, l.server.Kind.Name) {
			lanes = append(lanes, l)
		} else {
			over = append(over, l)
		}
	}
	if err := closeAll(over); err != nil {
		return lanes, err
	}
	if len(lanes) == 0 {
		if lanes, err = b.startAll(ctx, s, issuer); err != nil {
			return lanes, err
		}
	}
	for _, l := range lanes {
		l.scenario = s
		if err := l.prepare(ctx); err != nil {
			return lanes, err
		}
	}
	return lanes, nil
}

// startAll starts the servers of a scenario.
func (b *bench) startAll(ctx context.Context, s *scenario, issuer *server.Server) (lanes []*lane, err error) {
	setup := server.Setup{
		Dir: b.dir, Binary: b.binary, Filler: b.filler, Env: b.env, Traefik: b.traefik, Issuer: issuer.Addr(), Keys: makeKeys(s.keys),
		Limit: server.Limit{Requests: 1_000_000_000, Seconds: 1},
	}
	if s.outcome == limited {
		setup.Limit = server.Limit{Requests: 1, Seconds: 24 * 60 * 60}
	}
	for _, name := range s.servers {
		started, err := server.KindOf(name).Start(ctx, &setup)
		if err != nil {
			return lanes, err
		}
		lanes = append(lanes, &lane{server: started, issuer: issuer, signed: setup.Keys, dir: b.dir})
	}
	return lanes, nil
}

// runScenario runs the servers in turn, round after round.
func (b *bench) runScenario(ctx context.Context, lanes []*lane) (rows []report.Row, err error) {
	lanes = slices.Clone(lanes)
	for round := 1; round <= b.rounds; round++ {
		for _, l := range lanes {
			row, err := l.measure(ctx, round, b.span)
			if err != nil {
				return rows, err
			}
			rows = append(rows, row)
			fmt.Fprintf(b.out, "  %d/%d %-18s %7.0f requests/s, %6.1f µs, Redis %5.1f µs, p99 %.1f ms\n",
				round, b.rounds, row.Server, row.PerSecond, row.CPU, row.RedisCPU, row.P99)
		}
		slices.Reverse(lanes) // so that the order changes from round to round
	}
	return rows, nil
}

// closeAll ends the servers.
func closeAll(lanes []*lane) (err error) {
	for _, l := range lanes {
		err = errors.Join(err, l.server.Close())
	}
	return err
}

// prepare checks that the server gives the outcome of the scenario, warms it
// up, and fills it with the nonces of the scenario.
func (l *lane) prepare(ctx context.Context) error {
	if err := l.probe(ctx); err != nil {
		return err
	}
	if _, err := l.wrk(ctx, warmUp, l.spec); err != nil {
		return err
	}
	return l.fill(ctx)
}

// makeKeys returns n keys. Their ids have the same length.
func makeKeys(n int) []load.Key {
	keys := make([]load.Key, n)
	for i := range keys {
		keys[i] = load.Key{ID: fmt.Sprintf("ck_bench_%06d", i), Secret: fmt.Sprintf("bench-secret-of-key-%06d", i)}
	}
	return keys
}

// workDir makes the directory of a run. The caller removes it.
func workDir() (string, error) {
	dir, err := os.MkdirTemp("", "cgb") // short: unix sockets lie in it
	if err != nil {
		return "", fmt.Errorf("making a directory for the run: %w", err)
	}
	return dir, nil
}
