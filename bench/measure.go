package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/card-gateway/card-gateway/bench/load"
	"github.com/card-gateway/card-gateway/bench/report"
	"github.com/card-gateway/card-gateway/bench/server"
)

const (
	// warmUp is how long a server runs before it is measured.
	warmUp = time.Second
	// rateBefore is the assumed rate, in requests per second, for the size of
	// the first pool.
	rateBefore = 15_000
	// fewReplays is how many different requests are replayed.
	fewReplays = 64
	// steadySpans is how many spans a run at a constant rate lasts: of 1,000 requests
	// a second it takes more for a p99.9.
	steadySpans = 4
)

// A lane is one server in one scenario.
type lane struct {
	*scenario
	server *server.Server
	issuer *server.Server
	signed []load.Key // the keys that sign
	dir    string     // of its pools
	rate   float64    // requests per second, as last seen
	fresh  int        // requests with a nonce of their own that were sent so far
}

// judged reports whether the server checks signatures at all. If not, the same
// requests can be sent again and again.
func (l *lane) judged() bool { return l.server.Kind.Judges }

// spec returns the requests to sign for a run with count requests.
func (l *lane) spec(count int) load.Spec {
	return load.Spec{Keys: l.signed, Count: count, Body: load.Body(l.body), Time: time.Now(), Tampered: l.outcome == signature}
}

// steadily sends signed requests at the rate of the scenario.
func (l *lane) steadily(ctx context.Context, span time.Duration) (load.Result, error) {
	count := int(span.Seconds() * float64(l.steady))
	pool, err := load.WritePool(l.dir, l.spec(count))
	if err != nil {
		return load.Result{}, err
	}
	run := load.Steady{Run: load.Run{Addr: l.server.Addr(), Connections: l.connections, Duration: span, Pool: pool}, Rate: l.steady}
	result, err := run.Do(ctx)
	if err != nil {
		return result, fmt.Errorf("%s, %s: %w", l.name, l.server.Kind.Name, err)
	}
	l.fresh += count
	return result, l.check(result)
}

// wrk sends signed requests for the span. If each request must be new, it signs
// enough of them, and starts again with more if they were too few.
func (l *lane) wrk(ctx context.Context, span time.Duration, spec func(count int) load.Spec) (load.Result, error) {
	again := !l.judged() || l.outcome == replayed
	count := max(int(l.rate*span.Seconds()*1.5), int(rateBefore*span.Seconds())) + 2*l.connections
	if again {
		count = fewReplays
	}
	for {
		pool, err := load.WritePool(l.dir, spec(count))
		if err != nil {
			return load.Result{}, err
		}
		run := load.Run{Addr: l.server.Addr(), Connections: l.connections, Duration: span, Pool: pool, Again: again}
		result, err := run.Do(ctx)
		switch {
		case errors.Is(err, load.ErrExhausted) && count < 10_000_000:
			count *= 2
			continue
		case err != nil:
			return result, fmt.Errorf("%s, %s: %w", l.name, l.server.Kind.Name, err)
		}
		l.rate = float64(result.Requests) / result.Span.Seconds()
		if !again {
			l.fresh += result.Requests
		}
		return result, l.check(result)
	}
}

// check compares the answers with the outcome of the scenario, so that a run
// that measured something else does not count.
func (l *lane) check(r load.Result) error {
	var expected bool
	switch {
	case !l.judged() || l.outcome == accepted:
		expected = r.Refused == 0
	case l.outcome == replayed:
		expected = r.Requests-r.Refused <= fewReplays
	default:
		expected = r.Refused == r.Requests
	}
	if !expected {
		return fmt.Errorf("%s, %s: %d of %d requests were refused", l.name, l.server.Kind.Name, r.Refused, r.Requests)
	}
	return nil
}

// measure runs one round.
func (l *lane) measure(ctx context.Context, round int, span time.Duration) (report.Row, error) {
	before, issuerBefore, err := l.usages(ctx)
	if err != nil {
		return report.Row{}, err
	}
	var result load.Result
	if l.steady > 0 {
		result, err = l.steadily(ctx, steadySpans*span)
	} else {
		result, err = l.wrk(ctx, span, l.spec)
	}
	if err != nil {
		return report.Row{}, err
	}
	after, issuerAfter, err := l.usages(ctx)
	if err != nil {
		return report.Row{}, err
	}
	each := func(used time.Duration) float64 { return used.Seconds() * 1e6 / float64(result.Requests) }
	row := report.Row{
		Scenario: l.name, Server: l.server.Kind.Name, Round: round,
		Body: l.body, Connections: l.connections, Keys: l.scenario.keys, Nonces: l.nonces, Rate: l.steady, Outcome: string(l.outcome),
		Requests: result.Requests, PerSecond: float64(result.Requests) / result.Span.Seconds(),
		CPU: each(after.Front - before.Front), RedisCPU: each(after.Redis - before.Redis),
		IssuerCPU: each(issuerAfter.Front - issuerBefore.Front), LoadCPU: each(result.CPU),
		P50: result.P50.Seconds() * 1e3, P99: result.P99.Seconds() * 1e3, P999: result.P999.Seconds() * 1e3,
		Resident: float64(after.FrontResident) / (1 << 20), RedisResident: float64(after.RedisResident) / (1 << 20),
	}
	return row, nil
}

// usages returns what the server and the issuer have used so far.
func (l *lane) usages(ctx context.Context) (own, issuer server.Usage, err error) {
	if own, err = l.server.Usage(ctx); err != nil {
		return own, issuer, err
	}
	issuer, err = l.issuer.Usage(ctx)
	return own, issuer, err
}

// fill makes as many nonces live as the scenario is about, those of the runs so
// far included. A gateway's store is filled by its contract, because a million
// requests take longer than their nonces live. The other servers get requests.
func (l *lane) fill(ctx context.Context) error {
	if !l.judged() || l.fresh >= l.nonces {
		return nil
	}
	filled, err := l.server.Fill(ctx, l.nonces-l.fresh)
	if err != nil {
		return err
	}
	if filled {
		l.fresh = l.nonces
		_, err := l.wrk(ctx, warmUp, l.spec) // it may be a new process
		return err
	}
	for l.fresh < l.nonces {
		if _, err := l.wrk(ctx, warmUp, l.spec); err != nil {
			return fmt.Errorf("filling up nonces: %w", err)
		}
	}
	return nil
}
