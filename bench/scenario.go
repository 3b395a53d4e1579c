package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/bench/report"
	"github.com/card-gateway/card-gateway/bench/server"
)

// An outcome is the result of the requests of a scenario at a server that
// judges them.
type outcome string

const (
	accepted  outcome = "accepted"
	signature outcome = "signature" // refused: signed with another secret
	replayed  outcome = "replayed"  // refused: sent before
	limited   outcome = "limited"   // refused: the key has spent its limit
)

// A scenario is one load. Each of the others differs from the first in one
// property.
type scenario struct {
	name, title             string
	body, connections, keys int
	nonces                  int // live at the start
	steady                  int // requests per second that come due; 0: as fast as answers come
	outcome                 outcome
	servers                 []string
	goesOn                  bool // with servers of the scenario before
}

var (
	every   = namesOf(server.Kinds)
	plain   = slices.DeleteFunc(slices.Clone(every), func(name string) bool { return strings.HasPrefix(name, "assert-") })
	judging = []string{server.Baseline, "haproxy", byHand, "forward-embedded", "forward-redis"}

	steadied = []string{server.Baseline, "haproxy", "forward-embedded", "forward-redis"}
)

// byHand is the server with the same checks, written by hand.
const byHand = "nginx-lua-redis"

var scenarios = []scenario{
	{name: "post-1k", title: "POST of 1 KiB, 32 connections, one key", body: 1024, connections: 32, keys: 1, outcome: accepted, servers: plain},
	{name: "body-0", title: "POST without a body", connections: 32, keys: 1, outcome: accepted, servers: plain},
	{name: "body-64k", title: "POST of 64 KiB", body: 64 << 10, connections: 32, keys: 1, outcome: accepted, servers: plain},
	{name: "connections-256", title: "POST of 1 KiB, 256 connections", body: 1024, connections: 256, keys: 1, outcome: accepted, servers: plain},
	{name: "keys-100", title: "POST of 1 KiB, 100 keys", body: 1024, connections: 32, keys: 100, outcome: accepted, servers: judging},
	{name: "keys-10k", title: "POST of 1 KiB, 10,000 keys, about 10,000 live nonces", body: 1024, connections: 32, keys: 10_000, nonces: 10_000, outcome: accepted, servers: judging},
	{name: "nonces-1m", title: "POST of 1 KiB, 10,000 keys, a million live nonces", body: 1024, connections: 32, keys: 10_000, nonces: 1_000_000, outcome: accepted, goesOn: true, servers: []string{server.Baseline, "forward-embedded", "forward-redis"}},
	{name: "steady-1k", title: "POST of 1 KiB, 1,000 a second", body: 1024, connections: 32, keys: 1, steady: 1000, outcome: accepted, servers: steadied},
	{name: "steady-5k", title: "POST of 1 KiB, 5,000 a second", body: 1024, connections: 32, keys: 1, steady: 5000, outcome: accepted, goesOn: true, servers: steadied},
	{name: "asserted", title: "POST of 1 KiB, with an assertion for the issuer", body: 1024, connections: 32, keys: 1, outcome: accepted, servers: []string{server.Baseline, "forward-embedded", "assert-eddsa", "assert-hs256"}},
	{name: "refused", title: "POST of 1 KiB with a wrong signature", body: 1024, connections: 32, keys: 1, outcome: signature, servers: judging},
	{name: "replayed", title: "POST of 1 KiB sent again", body: 1024, connections: 32, keys: 1, outcome: replayed, servers: judging},
	{name: "limited", title: "POST of 1 KiB over the limit", body: 1024, connections: 32, keys: 1, outcome: limited, servers: judging},
}

// plots are the figures of docs/performance.md.
var plots = []report.Plot{
	{File: "throughput.svg", Title: "Requests per second by connections", Axis: "connections", Points: []report.Point{{Scenario: "post-1k", Label: "32"}, {Scenario: "connections-256", Label: "256"}}},
	{File: "body.svg", Title: "Cost by size of the body", Axis: "bytes of the body", Cost: true, Points: []report.Point{{Scenario: "body-0", Label: "0"}, {Scenario: "post-1k", Label: "1 KiB"}, {Scenario: "body-64k", Label: "64 KiB"}}},
	{File: "keys.svg", Title: "Cost by number of keys", Axis: "keys", Cost: true, Points: []report.Point{{Scenario: "post-1k", Label: "1"}, {Scenario: "keys-100", Label: "100"}, {Scenario: "keys-10k", Label: "10,000"}}},
	{File: "nonces.svg", Title: "Cost by live nonces, 10,000 keys", Axis: "live nonces at the start", Cost: true, Points: []report.Point{{Scenario: "keys-10k", Label: "about 10,000"}, {Scenario: "nonces-1m", Label: "a million"}}},
	{File: "outcomes.svg", Title: "Cost by outcome", Axis: "outcome", Cost: true, Points: []report.Point{{Scenario: "post-1k", Label: "accepted"}, {Scenario: "refused", Label: "bad signature"}, {Scenario: "replayed", Label: "replayed"}, {Scenario: "limited", Label: "limited"}}},
}

// growth are the scenarios that differ in keys and nonces alone.
var growth = []report.Point{
	{Scenario: "post-1k"}, {Scenario: "keys-100", Label: "100 keys"}, {Scenario: "keys-10k", Label: "10,000 keys"},
	{Scenario: "nonces-1m", Label: "10,000 keys and a million nonces"},
}

// names are the titles for tables and plots.
var names = report.Names{
	Baseline: server.Baseline, ByHand: byHand,
	Server: func(name string) string { return server.KindOf(name).Title },
	Scenario: func(name string) string {
		for _, s := range scenarios {
			if s.name == name {
				return s.title
			}
		}
		return name
	},
}

func namesOf(kinds []*server.Kind) []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.Name)
	}
	return all
}

// choose returns the scenarios of these names with the servers of these names;
// no name means all.
func choose(wanted, servers []string) ([]scenario, error) {
	for _, name := range servers {
		if server.KindOf(name) == nil {
			return nil, fmt.Errorf("no server is called %s; there are %s", name, strings.Join(every, ", "))
		}
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name }) {
			var known []string
			for _, s := range scenarios {
				known = append(known, s.name)
			}
			return nil, fmt.Errorf("no scenario is called %s; there are %s", name, strings.Join(known, ", "))
		}
	}
	var chosen []scenario
	for _, s := range scenarios {
		if len(wanted) > 0 && !slices.Contains(wanted, s.name) {
			continue
		}
		if len(servers) > 0 {
			s.servers = slices.DeleteFunc(slices.Clone(s.servers), func(name string) bool { return !slices.Contains(servers, name) })
		}
		if len(s.servers) > 0 {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// takes returns an estimate of how long the scenario runs.
func (s *scenario) takes(rounds int, seconds time.Duration) time.Duration {
	const (
		around = 700 * time.Millisecond // signing and loading a pool, a run's own start
		start  = 2 * time.Second        // of a server
		key    = 2 * time.Millisecond   // to make one
		nonce  = 60 * time.Microsecond  // to make one live
	)
	var sum time.Duration
	for _, name := range s.servers {
		span := seconds
		if s.steady > 0 {
			span *= steadySpans
		}
		sum += warmUp + around + time.Duration(rounds)*(span+around)
		if !s.goesOn {
			sum += start
		}
		if server.KindOf(name).Judges {
			sum += time.Duration(s.nonces) * nonce
			if !s.goesOn {
				sum += time.Duration(s.keys) * key
			}
		}
	}
	return sum
}
