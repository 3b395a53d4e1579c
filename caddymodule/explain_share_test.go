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
	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/store"
)

// With generic_messages an unknown key costs what a known one costs, from
// shares that are not those of the keys that exist. Else it costs nothing.
func TestUnknownKeysTakeNoShares(t *testing.T) {
	stranger := &sign.Signer{KeyID: "ck_live_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Secret: "a secret of nobody, of 32 bytes."}
	for generic, want := range map[bool]float64{false: 0, true: 1} {
		g := newGate(t)
		g.auth.GenericMessages = generic
		g.auth.site.state.process.Explanations = node.NewExplanationShares(1, 1)
		before := testutil.ToFloat64(meter.ExplanationsGiven)
		if got := g.get(stranger, "192.0.2.1", broken["nothing"]); got.Code != http.StatusUnauthorized {
			t.Fatal(got.Code)
		}
		if got := testutil.ToFloat64(meter.ExplanationsGiven) - before; got != want {
			t.Errorf("generic %t: %g explanations, want %g", generic, got, want)
		}
		if !g.auth.site.state.process.Explanations.Take("a key", netip.Prefix{}, time.Now()) {
			t.Errorf("generic %t: a stranger has used up a share of the keys", generic)
		}
	}
}

// noExplanations returns shares that are used up for a day.
func noExplanations() *node.ExplanationShares {
	e := node.NewExplanationShares(1, 1)
	e.Take("", netip.Prefix{}, time.Now().Add(24*time.Hour))
	return e
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
				g.auth.site.state.process.Explanations = noExplanations()
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
				g.auth.site.state.process.Explanations = noExplanations()
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
