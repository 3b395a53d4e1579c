package masters

import (
	"errors"
	"testing"
	"time"
)

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

// A server counts as seen from the moment at which it takes writes: before that, the
// master that it replaces may have accepted requests.
func TestSightedWhenItTakesWrites(t *testing.T) {
	m := newObservations()
	for second, denied := range []error{errors.New("NOREPLICAS"), errors.New("NOREPLICAS"), nil, errors.New("OOM"), nil} {
		m.sight([]serverInfo{{identity: "late", now: time.Unix(int64(second), 0), probed: probed{denied: denied}}})
	}
	if got := m.sighted["late"].at; got != time.Unix(2, 0).UnixMicro() {
		t.Errorf("it was first seen at %d", got)
	}
}
