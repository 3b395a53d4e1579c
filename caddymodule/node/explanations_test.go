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
func TestShareOfAnAddress(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.IntRange(1, 1000).Draw(t, "interval")) * time.Millisecond
		burst := rapid.Int64Range(1, 20).Draw(t, "burst")
		shares := NewExplanationShares(aSecond(1000, 1000), ratelimit.Limit{Count: 1000, Period: 1000 * interval, Burst: burst}, aSecond(1000, 1000))
		now := time.Unix(1_800_000_000, 0)
		var taken []time.Time
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 2000), 1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(step) * time.Millisecond)
			if shares.Take("", netip.Prefix{}, now) {
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

// A live key gets one explanation a second, a test key 20 at once, an address five a
// second, and the process 20. Callers who have proved nothing get 20 at once for an address,
// as long as fewer than 50 addresses ask. What one has used up takes nothing from another.
func TestExplanationsAreShared(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	same := func(int) string { return "same" }
	key := func(i int) string { return fmt.Sprint("key ", i) }
	nobody := func(int) string { return "" }
	address := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 32)
	}
	home := func(int) netip.Prefix { return address(1 << 12) }
	s := New()
	for name, c := range map[string]struct {
		shares  *ExplanationShares
		key     func(i int) string
		address func(i int) netip.Prefix
		want    int
	}{
		"one live key":           {New().Explanations, same, address, 1},
		"live keys, one address": {New().Explanations, key, home, 5},
		"live keys":              {New().Explanations, key, address, 20},
		"a run with a test key":  {s.Tests, same, home, testRun},
		"test keys":              {New().Tests, key, address, 20},
		"one stranger":           {s.Claims, nobody, home, testRun},
		"strangers":              {s.Strangers, nobody, func(i int) netip.Prefix { return address(i / testRun) }, unprovenAddresses * testRun},
	} {
		given, skipped := testutil.ToFloat64(meter.ExplanationsGiven), testutil.ToFloat64(meter.ExplanationsSkipped)
		taken, all := 0, 2*unprovenAddresses*testRun
		for i := range all {
			if c.shares.Take(c.key(i), c.address(i), now) {
				taken++
			}
		}
		if taken != c.want { // others take what two names that share a slot do not
			t.Errorf("%s: %d, want %d", name, taken, c.want)
		}
		if got := testutil.ToFloat64(meter.ExplanationsGiven) + testutil.ToFloat64(meter.ExplanationsSkipped) - given - skipped; got != float64(all) {
			t.Errorf("%s: %g are counted, want %d", name, got, all)
		}
		if !c.shares.Take("fresh key", address(1<<13), now.Add(time.Second)) {
			t.Errorf("%s: nothing is left for others a second later", name)
		}
	}
}

// Whoever is refused by one share takes nothing from the others.
func TestRefusedTakesNothing(t *testing.T) {
	now, s := time.Unix(1_800_000_000, 0), New().Tests
	busy, quiet := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	for range testRun {
		s.Take("stranger", busy, now)
	}
	for range testRun {
		if s.Take("key", busy, now) {
			t.Fatal("an address has more than its share")
		}
	}
	if !s.Take("key", quiet, now.Add(time.Second)) {
		t.Error("requests that were not explained have used up the share of the key")
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
