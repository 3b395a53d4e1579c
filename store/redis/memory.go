package redis

// memory is what this gateway has seen of the servers since it began.
type memory struct {
	identities map[string]bool
	last       string // identity of the master, where there is one
	evicted    map[string]int64
	skewed     bool // the server's clock was off at the last look
}

func (m *memory) remember(identities []string) {
	if m.identities == nil {
		m.identities = make(map[string]bool)
	}
	for _, id := range identities {
		m.identities[id] = true
	}
	m.last = identities[len(identities)-1]
}

// evictedMore reports whether the server has evicted since the last look.
func (m *memory) evictedMore(i *serverInfo) bool {
	if m.evicted == nil {
		m.evicted = make(map[string]int64)
	}
	last, known := m.evicted[i.run]
	m.evicted[i.run] = i.evicted
	return known && i.evicted > last
}

// nothingNew reports whether the adoption would change nothing.
func (m *memory) nothingNew(a *adoption, cluster bool) bool {
	if a.raise || a.least > 0 {
		return false
	}
	for _, id := range a.identities {
		if !m.identities[id] || !cluster && m.last != id {
			return false
		}
	}
	return true
}
