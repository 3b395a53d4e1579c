// Package offenders counts the refusals of the last fifteen minutes by key, in
// bounded memory.
//
// Begin with [Counter].
package offenders

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	slotSpan  = 30 * time.Second
	slots     = 31  // the current one and fifteen minutes before it
	topSlots  = 11  // the current one and five minutes before it
	slotKeys  = 256 // keys in a slot
	maxLength = 128 // bytes of an id; ids are not longer
)

// An Entry is a key and its refusals.
type Entry struct {
	Key     string `json:"key_id"`
	Tenant  string `json:"tenant"`
	Refused uint64 `json:"refused"`
	// Over is by how much Refused may be too high, because more keys were refused
	// than there is room for.
	Over   uint64 `json:"over,omitempty"`
	Reason string `json:"reason"` // of the last refusal
}

// A Counter counts. The zero value is ready. All methods may be called at once.
type Counter struct {
	mu    sync.Mutex
	slots [slots]slot
}

// A slot holds the keys with the most refusals of a span. A key for which there is
// no room takes the place of the one with the fewest, and its count with it: so a
// key with more than 1/256 of the refusals of a slot is always in it, and a count
// is too high by at most as much (the algorithm Space-Saving).
type slot struct {
	number  int64
	entries map[string]*Entry
}

// Add counts a refusal of a key at a time.
func (c *Counter) Add(at time.Time, key, tenant, reason string) {
	if len(key) > maxLength {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slot(at)
	e := s.entries[key]
	if e == nil {
		e = &Entry{Key: key, Tenant: tenant}
		if len(s.entries) >= slotKeys {
			least := s.least()
			delete(s.entries, least.Key)
			e.Refused, e.Over = least.Refused, least.Refused
		}
		s.entries[key] = e
	}
	e.Refused++
	e.Tenant, e.Reason = tenant, reason
}

// slot returns the slot of a time, emptied if it is of an earlier one.
func (c *Counter) slot(at time.Time) *slot {
	number := at.UnixNano() / int64(slotSpan)
	s := &c.slots[number%slots]
	if s.number != number || s.entries == nil {
		*s = slot{number: number, entries: make(map[string]*Entry)}
	}
	return s
}

func (s *slot) least() *Entry {
	var least *Entry
	for _, e := range s.entries {
		if least == nil || e.Refused < least.Refused {
			least = e
		}
	}
	return least
}

// A Series is a key with its refusals of the last fifteen minutes, and how many of them
// were in each half a minute, the oldest first; the last one is not over.
type Series struct {
	Entry
	Slots [slots]uint64 `json:"slots"`
}

// Recent returns at most n keys with the most refusals of the fifteen minutes before a
// time, those with the most first.
func (c *Counter) Recent(at time.Time, n int) []Series {
	now := at.UnixNano() / int64(slotSpan)
	top := c.most(at, slots, n)
	list := make([]Series, len(top))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range top {
		list[i].Entry = e
		for j := range list[i].Slots {
			number := now - slots + 1 + int64(j)
			if s := &c.slots[number%slots]; s.number == number && s.entries[e.Key] != nil {
				list[i].Slots[j] = s.entries[e.Key].Refused
			}
		}
	}
	return list
}

// Top returns at most n keys with the most refusals of the five minutes before a
// time, those with the most first.
func (c *Counter) Top(at time.Time, n int) []Entry { return c.most(at, topSlots, n) }

// most returns the keys with the most refusals of the newest slots.
func (c *Counter) most(at time.Time, newest int64, n int) []Entry {
	now := at.UnixNano() / int64(slotSpan)
	sums := make(map[string]Entry)
	c.mu.Lock()
	for age := newest - 1; age >= 0; age-- { // the newest slot has the last reason
		s := &c.slots[(now-age)%slots]
		if s.number != now-age {
			continue
		}
		for key, e := range s.entries {
			sums[key] = Entry{Key: key, Tenant: e.Tenant, Refused: sums[key].Refused + e.Refused, Over: sums[key].Over + e.Over, Reason: e.Reason}
		}
	}
	c.mu.Unlock()
	list := slices.AppendSeq(make([]Entry, 0, len(sums)), maps.Values(sums))
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Key, b.Key))
	})
	return list[:min(n, len(list))]
}
