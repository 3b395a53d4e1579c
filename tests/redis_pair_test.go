package tests

import (
	"io"
	"sync"
	"testing"
)

// patient is what the line store says where a test is not about time: a burst
// on a busy machine waits for Redis instead of being refused.
func (r *redisServer) patient() string {
	return "redis " + r.url() + " {\nsettle_timeout 20s\nio_timeout 10s\n}"
}

// startPair returns two gateways on one Redis, with the same configuration and
// master key. They are patient unless the site says otherwise.
func startPair(t testing.TB, r *redisServer, s site) (a, b *gateway) {
	t.Helper()
	if s.store == "" {
		s.store = r.patient()
	}
	a = startGateway(t, s)
	return a, a.startSibling(s)
}

// startSibling returns a second gateway with the same master key.
func (g *gateway) startSibling(s site) *gateway {
	g.t.Helper()
	sibling := newGateway(g.t, s)
	sibling.write("master.key", g.read("master.key"))
	sibling.start()
	return sibling
}

// sendOver sends the requests at the same instant, each to the next of the
// gateways in turn: all but the last byte of each first, then the rest.
func sendOver(t testing.TB, gateways []*gateway, requests []*request) []*response {
	t.Helper()
	wires, last := make([]*wire, len(requests)), make([]string, len(requests))
	for i, r := range requests {
		text := r.head() + r.body
		wires[i] = gateways[i%len(gateways)].connect(t)
		wires[i].write(t, text[:len(text)-1])
		last[i] = text[len(text)-1:]
	}
	answers, errs := make([]*response, len(requests)), make([]error, len(requests))
	var all sync.WaitGroup
	start := make(chan struct{})
	for i, w := range wires {
		all.Go(func() {
			<-start
			if _, errs[i] = io.WriteString(w, last[i]); errs[i] == nil {
				answers[i], errs[i] = w.receive(requests[i].method)
			}
			_ = w.Close()
		})
	}
	close(start)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return answers
}

// copies returns the same request many times.
func copies(r *request, n int) []*request {
	all := make([]*request, n)
	for i := range all {
		all[i] = r
	}
	return all
}

// insistOn sends over a kept connection and expects an answer.
func (w *wire) insistOn(t testing.TB, r *request) *response {
	t.Helper()
	answer, err := w.exchange(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.target, err)
	}
	return answer
}
