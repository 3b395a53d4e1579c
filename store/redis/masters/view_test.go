package masters

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A server's clock is reported as set back exactly if it was set back by more
// than is allowed, even if answers are late or this machine stops for a while.
func TestClockSetBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newObservations().clocks
		server, up := time.Duration(1_700_000_000)*time.Second, time.Duration(0)
		read := func() bool {
			info := serverInfo{run: "a", asked: up}
			before := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "way there"))
			back := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "way back"))
			up, server = up+before, server+before
			info.now = time.Unix(0, int64(server))
			up, server = up+back, server+back
			info.answered = up
			c.read([]serverInfo{info})
			return c.setBack["a"]
		}
		read()
		for range rapid.IntRange(1, 10).Draw(t, "reads") {
			passed := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "passed"))
			drift := time.Duration(rapid.Int64Range(-500, 500).Draw(t, "drift, ppm")) * passed / 1_000_000
			slept := time.Duration(rapid.SampledFrom([]int64{0, 0, 60, 3600}).Draw(t, "this machine slept")) * time.Second
			ahead := time.Duration(rapid.SampledFrom([]int64{0, 0, 0, 4, 400}).Draw(t, "set ahead")) * time.Second
			up, server = up+passed, server+passed+drift+slept+ahead
			if read() {
				t.Fatal("the clock was not set back")
			}
		}
		server -= 100 * time.Second
		if !read() {
			t.Fatal("the clock was set back by 100 s")
		}
	})
}

// An eviction is reported to the other gateways by the first check that can
// reach them, even if the checks before it failed.
func TestEvictionIsRememberedUntilTold(t *testing.T) {
	m := newObservations()
	look := func(evicted int64, told, want bool) {
		t.Helper()
		if got := m.evictedMore(&serverInfo{run: "a", evicted: evicted}); got != want {
			t.Errorf("%d evicted: %v, want %v", evicted, got, want)
		}
		if told {
			m.remember([]serverInfo{{identity: "a"}})
		}
	}
	look(3, true, false) // before this gateway began
	look(5, false, true)
	look(5, true, true)
	look(5, true, false)
	look(6, true, true)
}

// When a master is lost, only slots that another master served before and still
// serves are safe. A slot that moved meanwhile may have been on the lost one.
func TestExposedSlots(t *testing.T) {
	set := func(first, last int) *slotSet {
		var s slotSet
		s.add(first, last)
		return &s
	}
	m := newObservations()
	m.remember([]serverInfo{{identity: "a", slots: set(0, 5460)}, {identity: "b", slots: set(5461, 10922)}, {identity: "c", slots: set(10923, 16383)}})
	now := []serverInfo{{identity: "x", slots: set(0, 5460)}, {identity: "b", slots: set(5461, 10922)}, {identity: "c", slots: set(10923, 16383)}}
	if got := m.exposed(now, 0).String(); got != "0-5460" {
		t.Errorf("one was replaced: %s", got)
	}
	now[1].slots.add(100, 100) // it came from the lost master, or from its successor
	now[2].slots = set(11000, 16383)
	if got := m.exposed(now, 0).String(); got != "0-5460 10923-10999" {
		t.Errorf("slots moved meanwhile: %s", got)
	}
	now[1].identity = "y"
	if got := m.exposed(now, 0).String(); got != "0-10999" {
		t.Errorf("two were replaced: %s", got)
	}
	none := newObservations()
	if got := none.exposed(now, 0).String(); got != "0-16383" {
		t.Errorf("nothing is known of before: %s", got)
	}
}
