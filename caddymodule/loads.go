package caddymodule

import (
	"sync"
	"time"

	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

// loads remembers the last loads of configurations of this process.
var loads loadMemory

type loadMemory struct {
	mu sync.Mutex
	of keyadmin.Loads
}

func (m *loadMemory) made(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of.At = at.UTC()
}

func (m *loadMemory) refused(at time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at = at.UTC()
	m.of.RefusedAt, m.of.Refusal = &at, err.Error()
}

func (m *loadMemory) last() keyadmin.Loads {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of
}

// lastRefused reports whether a configuration was refused after the last one started.
func (m *loadMemory) lastRefused() bool {
	last := m.last()
	return last.RefusedAt != nil && !last.RefusedAt.Before(last.At)
}
