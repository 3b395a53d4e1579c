package node

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
)

const (
	recentSpan = 15 * time.Minute
	stepSpan   = 10 * time.Second
	stepSlack  = time.Second // by which the caller of Take may be early
)

// Totals are what was counted since the start of the process.
type Totals struct {
	Outcomes map[string]uint64 // requests, by outcome
	Upstream map[string]uint64 // what the issuers answered, by class
	Times    map[string]meter.Times
}

// A recentMemory has the steps of the last fifteen minutes. The zero value is empty.
type recentMemory struct {
	mu    sync.Mutex
	at    time.Time // of last
	last  Totals
	steps []adminapi.Step
}

// Take adds a step up to a time if the last one is over, and then reads what was counted.
func (m *recentMemory) Take(at time.Time, read func() Totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	took := at.Sub(m.at)
	if took < stepSpan-stepSlack {
		return
	}
	now := read()
	if !m.at.IsZero() {
		m.drop(at)
		m.steps = append(m.steps, step(at, took, &m.last, &now))
	}
	m.at, m.last = at, now
}

// Steps returns the steps of the fifteen minutes before a time, the oldest first.
func (m *recentMemory) Steps(at time.Time) []adminapi.Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(at)
	return append([]adminapi.Step{}, m.steps...)
}

func (m *recentMemory) drop(at time.Time) {
	m.steps = slices.DeleteFunc(m.steps, func(s adminapi.Step) bool { return at.Sub(s.At) >= recentSpan })
}

// step returns what was counted between two readings.
func step(at time.Time, took time.Duration, before, now *Totals) adminapi.Step {
	s := adminapi.Step{
		At: at.UTC(), Seconds: took.Seconds(), Outcomes: counted(before.Outcomes, now.Outcomes), Upstream: counted(before.Upstream, now.Upstream),
		Issuers: make(map[string]adminapi.Latency),
	}
	for outcome, n := range s.Outcomes {
		switch reason, found := auth.ReasonNamed(outcome); {
		case !found, reason == auth.Accepted: // a dry run lets pass what it would refuse
			s.Accepted += n
		case reason.Status() >= 500:
			s.Failed += n
		default:
			s.Refused += n
		}
	}
	for issuer, times := range now.Times {
		answers := counted(before.Times[issuer], times)
		if n := sum(answers); n > 0 {
			s.Issuers[issuer] = adminapi.Latency{P50: quantile(answers, 0.5), P99: quantile(answers, 0.99), Answers: n}
		}
	}
	return s
}

// counted returns by how much counters have grown, without zeros; nil if one has become
// less: a histogram that was full has begun anew.
func counted[K comparable](before, now map[K]uint64) map[K]uint64 {
	grown := make(map[K]uint64)
	for name, n := range before {
		if n > now[name] {
			return nil
		}
	}
	for name, n := range now {
		if n > before[name] {
			grown[name] = n - before[name]
		}
	}
	return grown
}

func sum(answers meter.Times) (all uint64) {
	for _, n := range answers {
		all += n
	}
	return all
}

// quantile returns the time that a part of the answers took at most, in seconds: the upper
// bound of a bucket, which is at most a tenth too high.
func quantile(answers meter.Times, part float64) float64 {
	left := uint64(math.Ceil(part * float64(sum(answers))))
	for _, bound := range slices.Sorted(maps.Keys(answers)) {
		if answers[bound] >= left {
			return bound
		}
		left -= answers[bound]
	}
	return 0 // there is no answer
}
