package caddymodule

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

// A bodyMemory hands out the memory in which bodies are held. It is bounded,
// and no key and no address gets more of it than a share, so that nobody can
// take what all need.
type bodyMemory struct {
	name         string // the option that bounds it, for texts
	limit        int64  // bytes, in all
	keyShare     int64  // bytes that the requests of one key may hold
	addressShare int64  // bytes that the requests from one address may hold

	used      atomic.Int64
	keys      holders[string]
	addresses holders[netip.Prefix]
}

// A reservation is what one body holds of the memory. It belongs to one
// goroutine at a time.
type reservation struct {
	memory  *bodyMemory
	key     string       // id of the key
	address netip.Prefix // see holderAddress
	bytes   int64
}

// holderAddress returns the holder of a client's address. A client with an IPv6
// address usually has all of its /64, so a /64 is one holder. All unknown
// addresses are one holder, too.
func holderAddress(client netip.Addr) netip.Prefix {
	client = client.Unmap()
	bits := client.BitLen()
	if client.Is6() {
		bits = 64
	}
	prefix, _ := client.WithZone("").Prefix(bits)
	return prefix
}

// grow reserves n more bytes. The refusal is OverBudget. Its log text names the
// key or address whose share is used up, or states that all memory is.
func (r *reservation) grow(n int64) *auth.Refusal {
	m := r.memory
	if m == nil { // not counted
		return nil
	}
	if m.used.Add(n) > m.limit {
		m.used.Add(-n)
		return m.refusal(r, "all "+fmt.Sprint(m.limit)+" bytes of "+m.name+" are in use", "")
	}
	if !m.keys.take(r.key, n, m.keyShare) {
		m.used.Add(-n)
		return m.refusal(r, fmt.Sprintf("the requests of this key hold its share of %s, %d bytes", m.name, m.keyShare), r.key)
	}
	if !m.addresses.take(r.address, n, m.addressShare) {
		m.keys.give(r.key, n)
		m.used.Add(-n)
		return m.refusal(r, fmt.Sprintf("the requests from this address hold its share of %s, %d bytes", m.name, m.addressShare), r.address.String())
	}
	r.bytes += n
	return nil
}

// shrink releases n of the reserved bytes.
func (r *reservation) shrink(n int64) {
	if n <= 0 || r.memory == nil {
		return
	}
	r.bytes -= n
	r.memory.addresses.give(r.address, n)
	r.memory.keys.give(r.key, n)
	r.memory.used.Add(-n)
}

// release releases all reserved bytes. It may be called again.
func (r *reservation) release() {
	r.shrink(r.bytes)
}

// scarce reports whether more than half of the memory, or of the share of the
// reservation's key or address, is in use.
func (r *reservation) scarce() bool {
	m := r.memory
	used := m.used.Load()
	if used <= min(m.keyShare, m.addressShare)/2 {
		return false // nobody can hold more than all
	}
	return used > m.limit/2 || m.keys.held(r.key) > m.keyShare/2 || m.addresses.held(r.address) > m.addressShare/2
}

func (m *bodyMemory) refusal(r *reservation, why, holder string) *auth.Refusal {
	if holder == "" {
		if top := m.largest(1); len(top) == 1 {
			holder = top[0].Key
		}
	}
	return &auth.Refusal{
		Reason: auth.OverBudget, RetryAfter: time.Second,
		Log: fmt.Sprintf("%s; key %s asked, holder %s", why, r.key, holder),
	}
}

// largest returns the n keys that hold most, the largest first.
func (m *bodyMemory) largest(n int) []keyadmin.BodyHolder {
	all := make([]keyadmin.BodyHolder, 0, n)
	m.keys.each(func(key string, bytes int64) { all = append(all, keyadmin.BodyHolder{Key: key, Bytes: bytes}) })
	slices.SortFunc(all, func(a, b keyadmin.BodyHolder) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

// holders counts bytes by holder, in shards so that requests seldom wait for
// each other.
type holders[H comparable] struct {
	seed   maphash.Seed
	shards [32]holderShard[H]
}

type holderShard[H comparable] struct {
	mu    sync.Mutex
	bytes map[H]int64
}

func newBodyMemory(name string, limit int64, keyShare, addressShare float64) *bodyMemory {
	m := &bodyMemory{name: name, limit: limit, keyShare: shareOf(limit, keyShare), addressShare: shareOf(limit, addressShare)}
	m.keys.seed, m.addresses.seed = maphash.MakeSeed(), maphash.MakeSeed()
	return m
}

func shareOf(limit int64, share float64) int64 { return int64(float64(limit) * share) }

func (h *holders[H]) shard(holder H) *holderShard[H] {
	return &h.shards[maphash.Comparable(h.seed, holder)%uint64(len(h.shards))]
}

// take adds n bytes to those of the holder. It returns false, and adds nothing,
// if the holder would then have more than its share.
func (h *holders[H]) take(holder H, n, share int64) bool {
	s := h.shard(holder)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes[holder]+n > share {
		return false
	}
	if s.bytes == nil {
		s.bytes = make(map[H]int64)
	}
	s.bytes[holder] += n
	return true
}

func (h *holders[H]) give(holder H, n int64) {
	s := h.shard(holder)
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := s.bytes[holder] - n; left > 0 {
		s.bytes[holder] = left
	} else {
		delete(s.bytes, holder)
	}
}

func (h *holders[H]) held(holder H) int64 {
	s := h.shard(holder)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes[holder]
}

// each calls f with all holders and what they hold.
func (h *holders[H]) each(f func(holder H, bytes int64)) {
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		for holder, bytes := range s.bytes {
			f(holder, bytes)
		}
		s.mu.Unlock()
	}
}
