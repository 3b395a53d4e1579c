package caddymodule

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/store"
)

// In any span of time a name gets at most the burst and what comes back in it.
func TestShareTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.IntRange(1, 1000).Draw(t, "interval")) * time.Millisecond
		burst := rapid.Int64Range(1, 20).Draw(t, "burst")
		table := newShareTable(ratelimit.Limit{Count: 1000, Period: 1000 * interval, Burst: burst}, 1)
		now := time.Unix(1_800_000_000, 0)
		var taken []time.Time
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 2000), 1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(step) * time.Millisecond)
			if table.take(7, now) {
				taken = append(taken, now)
			} else if len(taken) == 0 {
				t.Fatal("the first is refused")
			}
		}
		for i := range taken {
			for j := i; j < len(taken); j++ {
				if most := burst + int64(taken[j].Sub(taken[i])/interval); int64(j-i+1) > most {
					t.Fatalf("%d in %s, want %d at most", j-i+1, taken[j].Sub(taken[i]), most)
				}
			}
		}
	})
}

// A key gets one a second, an address five and the process 20, and what one has
// used up takes nothing from another.
func TestExplanationsAreShared(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	count := func(e *explanationShares, key func(i int) string, address func(i int) netip.Prefix) (taken int) {
		for i := range 100 {
			if e.take(key(i), address(i), now) {
				taken++
			}
		}
		return taken
	}
	same := func(int) string { return "same" }
	key := func(i int) string { return fmt.Sprint("key ", i) }
	address := func(i int) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32) }
	for name, c := range map[string]struct {
		key     func(i int) string
		address func(i int) netip.Prefix
		want    int
	}{
		"one key":     {same, address, 1},
		"one address": {key, func(int) netip.Prefix { return address(1) }, 5},
		"everybody":   {key, address, 20},
	} {
		given, skipped := testutil.ToFloat64(explanationsGiven), testutil.ToFloat64(explanationsSkipped)
		e := newExplanationShares(explanationsPerSecond)
		if got := count(e, c.key, c.address); got > c.want || got < c.want-1 { // two names may share a slot
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if got := testutil.ToFloat64(explanationsGiven) + testutil.ToFloat64(explanationsSkipped) - given - skipped; got != 100 {
			t.Errorf("%s: %g are counted, want 100", name, got)
		}
		if !e.take("fresh key", address(200), now.Add(time.Second)) {
			t.Errorf("%s: nothing is left for others a second later", name)
		}
	}
}

// With generic_messages an unknown key costs what a known one costs, from
// shares that are not those of the keys that exist. Else it costs nothing.
func TestUnknownKeysTakeNoShares(t *testing.T) {
	stranger := &sign.Signer{KeyID: "ck_live_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Secret: "a secret of nobody, of 32 bytes."}
	for generic, want := range map[bool]float64{false: 0, true: 1} {
		g := newGate(t)
		g.auth.GenericMessages = generic
		g.auth.site.state.process.explanations = newExplanationShares(1)
		before := testutil.ToFloat64(explanationsGiven)
		if got := g.get(stranger, "192.0.2.1", broken["nothing"]); got.Code != http.StatusUnauthorized {
			t.Fatal(got.Code)
		}
		if got := testutil.ToFloat64(explanationsGiven) - before; got != want {
			t.Errorf("generic %t: %g explanations, want %g", generic, got, want)
		}
		if !g.auth.site.state.process.explanations.take("a key", netip.Prefix{}, time.Now()) {
			t.Errorf("generic %t: a stranger has used up a share of the keys", generic)
		}
	}
}

// The ring keeps the last refusals, finds the newest of an id and forgets the
// oldest.
func TestRefusalMemory(t *testing.T) {
	t.Parallel()
	m := new(refusalMemory)
	if _, found := m.find(""); found {
		t.Error("an empty memory knows the id that is none")
	}
	for i := range rememberedRefusals + 10 {
		m.add(adminapi.Refusal{RequestID: fmt.Sprint(i)})
	}
	m.add(adminapi.Refusal{RequestID: "20", Detail: "newer"})
	for id, want := range map[string]bool{"5": false, "10": false, "11": true, fmt.Sprint(rememberedRefusals + 9): true, "x": false} {
		if _, found := m.find(id); found != want {
			t.Errorf("%s is found: %t", id, found)
		}
	}
	if entry, _ := m.find("20"); entry.Detail != "newer" {
		t.Errorf("an older entry is found: %+v", entry)
	}
}

// noExplanations returns shares that are used up for a day.
func noExplanations() *explanationShares {
	e := newExplanationShares(1)
	e.take("", netip.Prefix{}, time.Now().Add(24*time.Hour))
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
				g.auth.site.state.process.explanations = noExplanations()
			}
			by := g.signer(store.Fields{})
			got := g.get(by, "192.0.2.1", func(r *http.Request) { change(r); r.Header.Set("X-Request-Id", "r-1") })
			answers[i], failures[i] = fmt.Sprint(got.Code, got.Header(), got.Body), g.failures(by.KeyID)
			if _, found := g.auth.site.state.process.refusals.find("r-1"); found != (i == 0 && got.Code >= 400) {
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
				g.auth.site.state.process.explanations = noExplanations()
			}
			g.auth.site.rules.lockAfter = 1 << 30
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
