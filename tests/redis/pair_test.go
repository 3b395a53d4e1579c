package redis

import (
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// startPair returns two gateways on one Redis, with the same configuration and
// master key. They are patient unless the site says otherwise.
func startPair(t testing.TB, r *harness.RedisServer, s harness.Site) (a, b *harness.Gateway) {
	t.Helper()
	if s.Store == "" {
		s.Store = r.Patient()
	}
	a = harness.StartGateway(t, s)
	return a, startSibling(a, s)
}

// startSibling returns a second gateway with the same master key.
func startSibling(g *harness.Gateway, s harness.Site) *harness.Gateway {
	g.T.Helper()
	sibling := harness.NewGateway(g.T, s)
	sibling.WriteFile("master.key", g.ReadFile("master.key"))
	sibling.Start()
	return sibling
}

// copies returns the same request many times.
func copies(r *harness.Request, n int) []*harness.Request {
	all := make([]*harness.Request, n)
	for i := range all {
		all[i] = r
	}
	return all
}

// insistOn sends over a kept connection and expects an answer.
func insistOn(t testing.TB, w *harness.Wire, r *harness.Request) *harness.Response {
	t.Helper()
	answer, err := w.Exchange(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.Target, err)
	}
	return answer
}
