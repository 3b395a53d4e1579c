package caddymodule

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/store"
)

// Only the refusal of a request that the key has signed is charged to the key, and of one
// that only names a key to the shares of such requests. Of an unknown key it costs nothing.
// With generic_messages it is charged like that of a known one.
func TestWhoseShareIsCharged(t *testing.T) {
	stranger := &sign.Signer{KeyID: "ck_live_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Secret: "a secret of nobody, of 32 bytes."}
	for name, c := range map[string]struct {
		by      func(*testedGate) *sign.Signer
		change  string
		want    string
		generic string
	}{
		"unknown": {func(*testedGate) *sign.Signer { return stranger }, "nothing", "", "strangers"},
		"forged":  {func(g *testedGate) *sign.Signer { return g.signer(store.Fields{}) }, "the signature", "claims", "strangers"},
		"signed":  {func(g *testedGate) *sign.Signer { return g.signer(store.Fields{AllowedIPs: []string{"203.0.113.7"}}) }, "nothing", "explanations", "explanations"},
	} {
		for generic, want := range map[bool]string{false: c.want, true: c.generic} {
			g := newGate(t)
			g.auth.GenericMessages = generic
			process, by := g.auth.site.state.process, c.by(g)
			process.Explanations, process.Tests, process.Claims, process.Strangers = oneExplanation(), oneExplanation(), oneExplanation(), oneExplanation()
			before := testutil.ToFloat64(meter.ExplanationsGiven)
			if got := g.get(by, "192.0.2.1", broken[c.change]); got.Code != http.StatusUnauthorized {
				t.Fatal(got.Code)
			}
			if got := testutil.ToFloat64(meter.ExplanationsGiven) - before; (got == 1) != (want != "") {
				t.Errorf("%s, generic %t: %g explanations", name, generic, got)
			}
			for of, shares := range map[string]*node.ExplanationShares{
				"explanations": process.Explanations, "tests": process.Tests, "claims": process.Claims, "strangers": process.Strangers,
			} {
				if left := shares.Take("", netip.Prefix{}, time.Now()); left == (of == want) {
					t.Errorf("%s, generic %t: the share of the %s is left: %t", name, generic, of, left)
				}
			}
		}
	}
}

// oneExplanation returns shares of one explanation in an hour.
func oneExplanation() *node.ExplanationShares {
	one := ratelimit.Limit{Count: 1, Period: time.Hour}
	return node.NewExplanationShares(one, one, one)
}

// noExplanations uses up the shares of live keys and of those who name them.
func noExplanations(process *node.State) {
	for _, shares := range []**node.ExplanationShares{&process.Explanations, &process.Claims} {
		*shares = oneExplanation()
		(*shares).Take("", netip.Prefix{}, time.Now())
	}
}

// What is explained is decided and counted as ever: the answers to a live key
// and the failures are the same with all shares and with none.
func TestExplainingChangesNothing(t *testing.T) {
	for name, change := range broken {
		var answers [2]string
		var failures [2]int
		for i := range answers {
			g := newGate(t)
			if i == 1 {
				noExplanations(g.auth.site.state.process)
			}
			by := g.signer(store.Fields{})
			got := g.get(by, "192.0.2.1", func(r *http.Request) { change(r); r.Header.Set("X-Request-Id", "r-1") })
			answers[i], failures[i] = fmt.Sprint(got.Code, got.Header(), got.Body), g.failures(by.KeyID)
			if _, found := g.auth.site.state.process.Refusals.Find("r-1"); found != (i == 0 && got.Code >= 400) {
				t.Errorf("%s is remembered: %t", name, found)
			}
		}
		if answers[0] != answers[1] || failures[0] != failures[1] {
			t.Errorf("%s: %s and %d failures with an explanation, %s and %d without", name, answers[0], failures[0], answers[1], failures[1])
		}
	}
}

// BenchmarkExplaining compares requests that are explained as shares allow with the
// same ones when nothing is explained: accepted ones, which must cost the same, and
// a flood of wrong signatures.
func BenchmarkExplaining(b *testing.B) {
	for _, c := range []struct {
		name   string
		change string
		shared bool
	}{
		{"accepted/never", "nothing", false},
		{"accepted/shared", "nothing", true},
		{"wrong/never", "the signature", false},
		{"wrong/shared", "the signature", true},
	} {
		b.Run(c.name, func(b *testing.B) {
			g := newGate(b)
			if !c.shared {
				noExplanations(g.auth.site.state.process)
			}
			g.auth.site.settings.LockAfter = 1 << 30
			var callers []*sign.Signer
			for range 20 { // one key alone would be explained once a second
				callers = append(callers, g.signer(store.Fields{}))
			}
			b.ReportAllocs()
			before := cpuTime(b)
			for i := 0; b.Loop(); i++ {
				g.get(callers[i%len(callers)], fmt.Sprintf("192.0.2.%d", i%len(callers)), broken[c.change])
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime returns the time of the processor that the process has had.
func cpuTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
