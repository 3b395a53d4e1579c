package offenders

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Unix(1_800_000_000, 0)

// A count is never too low, too high by at most Over, and the memory is bounded.
func TestCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := new(Counter)
		keys := rapid.IntRange(1, 600).Draw(t, "keys")
		exact := make(map[string]uint64)
		for range rapid.IntRange(0, 1500).Draw(t, "refusals") {
			key := fmt.Sprint("k", min(rapid.IntRange(0, keys).Draw(t, "key"), rapid.IntRange(0, keys).Draw(t, "or")))
			c.Add(epoch, key, "acme", "rate_limited")
			exact[key]++
		}
		top := c.Top(epoch, 2000)
		if len(top) > slotKeys || len(exact) <= slotKeys && len(top) != len(exact) {
			t.Fatalf("%d of %d keys are remembered", len(top), len(exact))
		}
		for _, e := range top {
			if e.Refused < exact[e.Key] || e.Refused-e.Over > exact[e.Key] {
				t.Fatalf("%s has %d, %d of them maybe too many; %d were counted", e.Key, e.Refused, e.Over, exact[e.Key])
			}
		}
	})
}

// A refusal counts for five minutes, and not for six; the last reason is shown.
func TestFiveMinutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := new(Counter)
		at := epoch.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "at")))
		c.Add(at, "a", "acme", "rate_limited")
		c.Add(at, "a", "acme", "scope_missing")
		c.Add(at, "b", "acme", "scope_missing")
		passed := time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(t, "passed"))
		top := c.Top(at.Add(passed), 1)
		switch {
		case passed <= 5*time.Minute && (len(top) != 1 || top[0] != Entry{Key: "a", Tenant: "acme", Refused: 2, Reason: "scope_missing"}):
			t.Fatalf("after %s: %+v", passed, top)
		case passed >= 6*time.Minute && len(top) != 0:
			t.Fatalf("after %s still %+v", passed, top)
		}
	})
}

// The series of a key has each refusal in its half a minute, and none that is over fifteen
// and a half minutes old.
func TestRecent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := new(Counter)
		at := epoch.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "at")))
		ages := slices.Sorted(slices.Values(rapid.SliceOfN(rapid.IntRange(0, 40*60), 0, 50).Draw(t, "seconds ago")))
		var want Series
		for _, ago := range slices.Backward(ages) {
			then := at.Add(-time.Duration(ago) * time.Second)
			c.Add(then, "a", "acme", fmt.Sprint(ago))
			if age := at.Unix()/30 - then.Unix()/30; age < slots {
				want.Slots[slots-1-age]++
				want.Entry = Entry{Key: "a", Tenant: "acme", Refused: want.Refused + 1, Reason: fmt.Sprint(ago)}
			}
		}
		got := c.Recent(at, 5)
		if want.Refused == 0 && len(got) > 0 || want.Refused > 0 && (len(got) != 1 || got[0] != want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// Ids that are too long cannot fill the memory.
func TestLongIDs(t *testing.T) {
	c := new(Counter)
	c.Add(epoch, string(make([]byte, maxLength+1)), "", "")
	if top := c.Top(epoch, 1); len(top) != 0 {
		t.Errorf("%+v", top)
	}
}
