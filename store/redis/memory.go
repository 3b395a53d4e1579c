package redis

import (
	"maps"
	"time"
)

// memory is what this gateway has seen of the servers since it started.
type memory struct {
	identities  map[string]bool
	last        string            // identity of the master, where there is one
	counted     map[string]int64  // by run, keys evicted as of the last check
	evicted     map[string]int64  // the same, as far as the floor was raised for it
	replay      map[string]string // by identity, what checkReplay found
	replayAsked time.Time
	emptied     bool // the store, or a part of it, and no floor was raised since
	skewed      bool // the server's clock was off at the last check
}

// remember notes that the other gateways know what the check found.
func (m *memory) remember(identities []string) {
	if m.identities == nil {
		m.identities = make(map[string]bool)
	}
	for _, id := range identities {
		m.identities[id] = true
	}
	m.last = identities[len(identities)-1]
	maps.Copy(m.evicted, m.counted)
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
