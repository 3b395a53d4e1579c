package caddymodule

import (
	"sync"

	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

// rememberedRefusals is how many refusals the process remembers. Each has at
// most the 8 KiB of a target and some hundred bytes.
const rememberedRefusals = 512

// refusalMemory is a ring of the last refusals that were explained. It holds no
// secret, no signature and no body, and is lost with the process.
type refusalMemory struct {
	mu   sync.Mutex
	ring [rememberedRefusals]keyadmin.Refusal
	next int
}

func (m *refusalMemory) add(entry keyadmin.Refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ring[m.next] = entry
	m.next = (m.next + 1) % len(m.ring)
}

// list returns the newest refusals of a key, at most n, the newest first; of all
// keys and of none for the empty id.
func (m *refusalMemory) list(key string, n int) []keyadmin.Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := []keyadmin.Refusal{}
	for i := range m.ring {
		e := &m.ring[(m.next-1-i+2*len(m.ring))%len(m.ring)]
		if !e.At.IsZero() && (key == "" || e.KeyID == key) && len(found) < n {
			found = append(found, *e)
		}
	}
	return found
}

// find returns the newest refusal with the request id.
func (m *refusalMemory) find(requestID string) (entry keyadmin.Refusal, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.ring {
		e := &m.ring[(m.next-1-i+2*len(m.ring))%len(m.ring)]
		if e.RequestID == requestID && requestID != "" {
			return *e, true
		}
	}
	return keyadmin.Refusal{}, false
}
