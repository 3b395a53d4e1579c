package redis

import (
	"maps"
	"strings"
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
	emptied     bool // the store, or a part of it, and no floor was raised since
	clocks      clocks
}

// remember notes that the other gateways know what the check found.
func (m *memory) remember(masters []serverInfo) {
	if m.identities == nil {
		m.identities, m.slots = make(map[string]bool), make(map[string]*slotSet)
	}
	for i := range masters {
		m.last = masters[i].identity
		m.identities[m.last], m.slots[m.last] = true, masters[i].slots
		delete(m.clocks.setBack, masters[i].run)
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

// A sighting is when a server was first seen.
type sighting struct {
	at    int64 // by its own clock, microseconds
	local time.Time
}

// sight notes when the servers that are new to this gateway were first seen.
func (m *memory) sight(masters []serverInfo) {
	if m.sighted == nil {
		m.sighted = make(map[string]sighting)
	}
	for i := range masters {
		if _, found := m.sighted[masters[i].identity]; !found {
			m.sighted[masters[i].identity] = sighting{masters[i].now.UnixMicro(), time.Now()}
		}
	}
}

// replaced reports whether the server goes on with the history of one that
// this gateway has used.
func (m *memory) replaced(i *serverInfo) bool {
	for identity := range m.identities {
		if _, replication, _ := strings.Cut(identity, "."); strings.HasPrefix(i.replication2, replication) {
			return true
		}
	}
	return false
}
