// Package share divides what all callers need, such as memory or connections, so that no
// tenant takes what others need. Begin with [Pool].
package share

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// A Caller is who uses a part of a pool. The zero value is the gateway itself, which may
// use all that is left.
type Caller struct {
	Tenant  string // the owner of the key; a key without one is its own
	Key     string // the id
	Address netip.Prefix
}

// A Rule is how many units there are, and how many of them a caller may hold.
type Rule struct {
	Limit   int64 // in all
	Key     int64 // for one key; 0: as many as its tenant
	Address int64 // for one tenant from one address; 0: as many as the tenant
}

// A Pool counts units by tenant, key and address, and hands them out by one rule:
//
//   - A part is kept for tenants that hold no more than it: an eighth, or the share of one
//     key, up to a half.
//   - A tenant may hold all else, and no more than half while another tenant holds
//     something or waits. An eighth of that is kept for those of its keys that hold little:
//     a sixteenth of the eighth, so that 15 others cannot use it up. Starting requests leave
//     it, too.
//   - A key may always hold its share, even if that is more than its tenant could hold.
//   - A request that is starting leaves a quarter of each part to those that have started.
//
// It is safe for use by many goroutines. The zero Pool has no units.
type Pool struct {
	rule Rule
	kept int64 // for tenants that hold no more
	used atomic.Int64

	mu        sync.Mutex
	tenants   map[string]tenant
	keys      map[string]int64
	addresses map[tenantAddress]int64
	waiting   []*waiter // the longest first
}

// A tenant is in the pool's map while it holds something or waits.
type tenant struct{ held, waiting int64 }

type tenantAddress struct {
	tenant  string
	address netip.Prefix
}

// A waiter waits for a unit.
type waiter struct {
	caller Caller
	ready  chan struct{} // closed when it has the unit
}

// keptPart of a pool, or of what a tenant may hold, is kept for those that hold little.
const keptPart = 8

// littlePart of what a tenant keeps for its keys is little for one of them.
const littlePart = 16

// startedPart of each part is left to requests that have started.
const startedPart = 4

// A Stage is how far a request is.
type Stage uint8

// The stages.
const (
	Starting Stage = iota // it can still be refused at no cost
	Started
)

// NewPool returns a pool of which nothing is held.
func NewPool(r Rule) *Pool {
	kept := (r.Limit + keptPart - 1) / keptPart
	return &Pool{
		rule: r, kept: min(max(kept, r.Key), r.Limit/2),
		tenants: make(map[string]tenant), keys: make(map[string]int64), addresses: make(map[tenantAddress]int64),
	}
}

// Level is which share does not suffice.
type Level uint8

// The levels, from the whole pool down.
const (
	Granted Level = iota
	Whole
	Tenant
	Key
	Address
)

// Rule returns the rule.
func (p *Pool) Rule() Rule { return p.rule }

// Used returns the units that are held.
func (p *Pool) Used() int64 { return p.used.Load() }

// Take takes n units for a caller. Unless it returns Granted, it takes nothing.
func (p *Pool) Take(c *Caller, n int64, s Stage) Level {
	p.mu.Lock()
	defer p.mu.Unlock()
	level := p.judge(c, n, s)
	if level == Granted {
		p.addLocked(c, n)
	}
	return level
}

// judge returns the first share that n more units would exceed.
func (p *Pool) judge(c *Caller, n int64, s Stage) Level {
	used := p.used.Load() + n
	if *c == (Caller{}) {
		if used > p.rule.Limit {
			return Whole
		}
		return Granted
	}
	ofTenant, ofKey := p.tenants[c.Tenant].held+n, p.keys[c.Key]+n
	most := p.mostOfTenant(c.Tenant)
	if kept := most / keptPart; s == Starting || ofKey > max(1, kept/littlePart) {
		most = max(most-kept, p.rule.Key)
	}
	switch {
	case used > p.room(ofTenant, s):
		return Whole
	case ofTenant > left(most, most, s):
		return Tenant
	case p.rule.Key > 0 && ofKey > left(p.rule.Key, p.rule.Key, s):
		return Key
	case p.rule.Address > 0 && p.addresses[tenantAddress{c.Tenant, c.Address}]+n > left(p.rule.Address, p.rule.Address, s):
		return Address
	}
	return Granted
}

// mostOfTenant returns what a tenant may hold now.
func (p *Pool) mostOfTenant(name string) int64 {
	others := len(p.tenants)
	if _, in := p.tenants[name]; in {
		others--
	}
	most := p.rule.Limit - p.kept
	if others > 0 {
		most = min(most, (p.rule.Limit+1)/2)
	}
	return max(most, p.rule.Key)
}

// room returns how many units may be in use in all for a tenant that then holds a number
// of them. One that holds more than the kept part, and than a key may, leaves that part.
func (p *Pool) room(holds int64, s Stage) int64 {
	if holds <= max(p.kept, p.rule.Key) {
		return left(p.rule.Limit, p.kept, s)
	}
	most := max(p.rule.Limit-p.kept, p.rule.Key)
	return left(most, most, s)
}

// left returns what a request at the stage may use of a share. A request that is starting
// leaves a quarter of the part from which it takes.
func left(share, part int64, s Stage) int64 {
	if s == Starting {
		return share - part/startedPart
	}
	return share
}

// addLocked adds n units to what the caller holds. Names that hold nothing are forgotten.
func (p *Pool) addLocked(c *Caller, n int64) {
	p.used.Add(n)
	if *c == (Caller{}) {
		return
	}
	t := p.tenants[c.Tenant]
	t.held += n
	set(p.tenants, c.Tenant, t)
	set(p.keys, c.Key, p.keys[c.Key]+n)
	if at := (tenantAddress{c.Tenant, c.Address}); p.rule.Address > 0 {
		set(p.addresses, at, p.addresses[at]+n)
	}
}

// set sets a value of a map. The zero value is not kept.
func set[K, V comparable](m map[K]V, name K, v V) {
	if v == *new(V) {
		delete(m, name)
		return
	}
	m[name] = v
}

// Give gives n units of the caller back.
func (p *Pool) Give(c *Caller, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(c, -n)
	p.serveLocked()
}

// Wait takes one unit for the caller. If there is none for it now, Wait waits until the
// context ends, and then returns which share did not suffice.
func (p *Pool) Wait(ctx context.Context, c *Caller) Level {
	p.mu.Lock()
	level := p.judge(c, 1, Started)
	if level == Granted {
		p.addLocked(c, 1)
		p.mu.Unlock()
		return Granted
	}
	w := &waiter{*c, make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.waitLocked(c.Tenant, 1)
	p.mu.Unlock()
	select {
	case <-w.ready:
		return Granted
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiting, w)
	if at < 0 { // it has the unit meanwhile
		return Granted
	}
	p.waiting = slices.Delete(p.waiting, at, at+1)
	p.waitLocked(c.Tenant, -1)
	p.serveLocked() // another tenant may be alone now
	return level
}

func (p *Pool) waitLocked(name string, n int64) {
	t := p.tenants[name]
	t.waiting += n
	set(p.tenants, name, t)
}

// serveLocked gives units to those that wait and may have one.
func (p *Pool) serveLocked() {
	p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter) bool {
		if p.judge(&w.caller, 1, Started) != Granted {
			return false
		}
		p.waitLocked(w.caller.Tenant, -1)
		p.addLocked(&w.caller, 1)
		close(w.ready)
		return true
	})
}

// Scarce reports whether more than half of the pool, or of what the caller may hold, is in
// use.
func (p *Pool) Scarce(c *Caller) bool {
	used, r := p.used.Load(), p.rule
	if used <= min(r.Key, r.Address)/2 {
		return false // nobody can hold more than all
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return used > r.Limit/2 || p.tenants[c.Tenant].held > p.mostOfTenant(c.Tenant)/2 ||
		p.keys[c.Key] > r.Key/2 || p.addresses[tenantAddress{c.Tenant, c.Address}] > r.Address/2
}

// Keys calls f with all keys that hold something, and how much.
func (p *Pool) Keys(f func(id string, held int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, held := range p.keys {
		f(id, held)
	}
}
