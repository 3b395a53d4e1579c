package redis

import (
	"maps"
	"time"
)

// memory is what this gateway has seen of the servers since it started.
type memory struct {
	identities  map[string]bool
	last        string // identity of the master, where there is one
	slots       map[string]*slotSet
	sighted     map[string]sighting
	counted     map[string]int64  // by run, keys evicted as of the last check
	evicted     map[string]int64  // the same, as far as the floor was raised for it
	replay      map[string]string // by identity, what checkReplay found
	replayAsked time.Time
	emptied     bool                    // the store, or a part of it, and no floor was raised since
	clocks      map[string]clockReading // by run
	setBack     map[string]bool         // by run: its clock was, and the other gateways do not know
}

// remember notes that the other gateways know what the check found.
func (m *memory) remember(masters []serverInfo) {
	if m.identities == nil {
		m.identities, m.slots = make(map[string]bool), make(map[string]*slotSet)
	}
	for i := range masters {
		m.last = masters[i].identity
		m.identities[m.last], m.slots[m.last] = true, masters[i].slots
		delete(m.setBack, masters[i].run)
	}
	maps.Copy(m.evicted, m.counted)
}

// exposed returns the slots in which a master may lack nonces: all but those
// that another one serves and served before.
func (m *memory) exposed(masters []serverInfo, master int) *slotSet {
	left := allSlots()
	for i := range masters {
		if before := m.slots[masters[i].identity]; i != master && before != nil {
			left = left.without(masters[i].slots, before)
		}
	}
	return left
}

// evictedMore reports whether the server has evicted anything that the other
// gateways do not know of.
func (m *memory) evictedMore(i *serverInfo) bool {
	if m.evicted == nil {
		m.counted, m.evicted = make(map[string]int64), make(map[string]int64)
	}
	m.counted[i.run] = i.evicted
	if _, known := m.evicted[i.run]; !known {
		m.evicted[i.run] = i.evicted
	}
	return i.evicted > m.evicted[i.run]
}
