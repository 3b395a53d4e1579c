package node

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/ratelimit"
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

// A key gets one a second, an address five and the process 20, of which a test key and its
// address may have all at once. What one has used up takes nothing from another.
func TestExplanationsAreShared(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	count := func(e *ExplanationShares, key func(i int) string, address func(i int) netip.Prefix) (taken int) {
		for i := range 100 {
			if e.Take(key(i), address(i), now) {
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
		atOnce  int64
		want    int
	}{
		"one key":               {same, address, 1, 1},
		"one address":           {key, func(int) netip.Prefix { return address(1) }, 1, 5},
		"everybody":             {key, address, 1, 20},
		"a run with a test key": {same, func(int) netip.Prefix { return address(1) }, testRun, 20},
	} {
		given, skipped := testutil.ToFloat64(meter.ExplanationsGiven), testutil.ToFloat64(meter.ExplanationsSkipped)
		e := NewExplanationShares(c.atOnce, explanationsPerSecond)
		if got := count(e, c.key, c.address); got > c.want || got < c.want-1 { // two names may share a slot
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if got := testutil.ToFloat64(meter.ExplanationsGiven) + testutil.ToFloat64(meter.ExplanationsSkipped) - given - skipped; got != 100 {
			t.Errorf("%s: %g are counted, want 100", name, got)
		}
		if !e.Take("fresh key", address(200), now.Add(time.Second)) {
			t.Errorf("%s: nothing is left for others a second later", name)
		}
	}
}

// The ring keeps the last refusals, finds the newest of an id and forgets the
// oldest.
func TestRefusalMemory(t *testing.T) {
	t.Parallel()
	m := new(refusalMemory)
	if _, found := m.Find(""); found {
		t.Error("an empty memory knows the id that is none")
	}
	for i := range rememberedRefusals + 10 {
		m.Add(adminapi.Refusal{RequestID: fmt.Sprint(i)})
	}
	m.Add(adminapi.Refusal{RequestID: "20", Detail: "newer"})
	for id, want := range map[string]bool{"5": false, "10": false, "11": true, fmt.Sprint(rememberedRefusals + 9): true, "x": false} {
		if _, found := m.Find(id); found != want {
			t.Errorf("%s is found: %t", id, found)
		}
	}
	if entry, _ := m.Find("20"); entry.Detail != "newer" {
		t.Errorf("an older entry is found: %+v", entry)
	}
}
