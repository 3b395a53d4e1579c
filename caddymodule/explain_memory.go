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

// processRefusals outlives configurations.
var processRefusals = new(refusalMemory)

func (m *refusalMemory) add(entry keyadmin.Refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ring[m.next] = entry
	m.next = (m.next + 1) % len(m.ring)
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
