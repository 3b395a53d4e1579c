package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/card-gateway/card-gateway/bench/server"
)

const (
	// idleSpan is how long a gateway without requests is measured. At 30,000 keys and
	// less it counts the keys twice meanwhile.
	idleSpan = time.Minute
	// keyPause is for how long a gateway does not count again, for each key: that of
	// package keys.
	keyPause = 1500 * time.Microsecond
)

// measureKeys prints a row for each number of keys: what a gateway on Redis costs with
// so many. docs/performance.md has the table.
func (b *bench) measureKeys(ctx context.Context, counts []string) (err error) {
	issuer, err := server.StartIssuer(ctx, b.dir)
	defer func() { err = errors.Join(err, issuer.Close()) }()
	if err != nil {
		return err
	}
	fmt.Fprintln(b.out, "| keys | start, s | reading all: CPU s, Redis | idle, % of a core: gateway, Redis | MiB: gateway, Redis | ms: first page, search, status | p50 ms | CPU µs a request: gateway, Redis |")
	fmt.Fprintln(b.out, "|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, text := range counts {
		count, err := strconv.Atoi(text)
		if err == nil {
			err = b.measureCount(ctx, issuer, count)
		}
		if err != nil {
			return fmt.Errorf("%s keys: %w", text, err)
		}
	}
	return nil
}

func (b *bench) measureCount(ctx context.Context, issuer *server.Server, count int) (err error) {
	setup := server.Setup{Dir: b.dir, Binary: b.binary, Filler: b.filler, Env: b.env, Issuer: issuer.Addr(), Limit: server.Limit{Requests: 1_000_000_000, Seconds: 1}}
	gateway, err := server.KindOf("forward-redis").Start(ctx, &setup)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gateway.Close()) }()
	made, err := gateway.MakeKeys(ctx, b.filler, count)
	if err != nil {
		return err
	}
	before, err := gateway.Usage(ctx)
	if err != nil {
		return err
	}
	start, err := gateway.Restart(ctx)
	if err != nil {
		return err
	}
	read, err := settled(ctx, gateway)
	if err != nil {
		return err
	}
	read.Redis -= before.Redis
	time.Sleep(idleSpan)
	rest, err := gateway.Usage(ctx)
	if err != nil {
		return err
	}
	idle := func(used, reading time.Duration) float64 {
		share := used.Seconds() / idleSpan.Seconds()
		if pause := keyPause * time.Duration(count); pause > idleSpan {
			share += reading.Seconds() / pause.Seconds() // it did not count meanwhile
		}
		return 100 * share
	}
	fmt.Fprintf(b.out, "| %d | %.2f | %.1f, %.1f | %.2f, %.2f | %d, %d |", count, start.Seconds(), read.Front.Seconds(), read.Redis.Seconds(),
		idle(rest.Front-read.Front, read.Front), idle(rest.Redis-before.Redis-read.Redis, read.Redis), rest.FrontResident>>20, rest.RedisResident>>20)
	for i, path := range []string{"keys?limit=100", "keys?limit=100&search=nothing-of-that-name", "status"} {
		took, err := gateway.Ask(ctx, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(b.out, "%s%.1f", []string{" ", ", ", ", "}[i], took.Seconds()*1e3)
	}
	return b.measureRequests(ctx, &lane{server: gateway, issuer: issuer, signed: made, dir: b.dir})
}

// settled waits until a gateway that has started uses little CPU: it has read all keys.
func settled(ctx context.Context, gateway *server.Server) (server.Usage, error) {
	const window = 2 * time.Second
	for before := time.Hour; ; {
		used, err := gateway.Usage(ctx)
		if err != nil || used.Front-before < window/20 && used.Front >= before {
			return used, err
		}
		before = used.Front
		select {
		case <-time.After(window):
		case <-ctx.Done():
			return used, ctx.Err()
		}
	}
}

// mostOpened is more keys than a gateway keeps opened in memory.
const mostOpened = 120_000

// measureRequests ends the row by the figures of requests with each key in turn, once as
// many keys were used as the gateway keeps in memory.
func (b *bench) measureRequests(ctx context.Context, l *lane) error {
	l.scenario = &scenario{name: "keys", body: 1024, connections: 32, keys: len(l.signed), outcome: accepted}
	for l.fresh < min(len(l.signed), mostOpened) {
		before := l.fresh
		if _, err := l.wrk(ctx, warmUp, l.spec); err != nil {
			return err
		}
		used := (l.fresh - before) % len(l.signed)
		l.signed = slices.Concat(l.signed[used:], l.signed[:used])
	}
	row, err := l.measure(ctx, 1, b.span)
	if err == nil {
		fmt.Fprintf(b.out, " | %.2f | %.0f, %.0f |\n", row.P50, row.CPU, row.RedisCPU)
	}
	return err
}
