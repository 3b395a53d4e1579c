package masters

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// One gateway reads the fences that another one wrote. The floor of a slot is
// the latest of all fences that include it.
func TestFences(t *testing.T) {
	one := rapid.Custom(func(t *rapid.T) fence {
		first := rapid.IntRange(0, slots-1).Draw(t, "first")
		return fence{first, rapid.IntRange(first, slots-1).Draw(t, "last"), rapid.Int64Range(1, 1e16).Draw(t, "at")}
	})
	rapid.Check(t, func(t *rapid.T) {
		var f fences
		for _, next := range rapid.SliceOfN(one, 0, 5).Draw(t, "fences") {
			f = f.and(fences{next})
		}
		read, err := parseFences(f.String())
		if err != nil || len(f) > 0 && !reflect.DeepEqual(read, f) {
			t.Fatalf("%q is read as %v, %v", f, read, err)
		}
		n := rapid.IntRange(0, slots-1).Draw(t, "slot")
		want := int64(0)
		for _, x := range f {
			if x.first <= n && n <= x.last && x.at > want {
				want = x.at
			}
		}
		if got := f.and(f).at(n); got != want {
			t.Fatalf("slot %d has floor %d, want %d: %v", n, got, want, f)
		}
	})
	for _, wrong := range []string{"1-2", "1=2", "a-b=c", "1-2=x"} {
		if f, err := parseFences(wrong); err == nil {
			t.Errorf("%q is read as %v", wrong, f)
		}
	}
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
