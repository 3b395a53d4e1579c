package file

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// nonces are the live nonces of one key, in an extendible hash table. The first
// bits of a hash choose an entry of the directory, which names a page. A full
// page first drops its dead nonces, and splits in two only if it is still full.
// So each step works on few pages, and the table stays small without a separate
// clean-up. The zero value is empty. There are no pointers to single nonces, so
// that the garbage collector has little to scan.
type nonces struct {
	directory []*noncePage
	depth     uint8 // the directory has 1<<depth entries
	count     int   // of nonces, dead ones that were not dropped yet included
}

// A noncePage is a small hash table with linear probing.
type noncePage struct {
	slots []nonceSlot // a power of two
	count int
	depth uint8 // how many first bits all hashes in it share
}

// A nonceSlot is one nonce.
type nonceSlot struct {
	high, low uint64 // the digest
	death     uint32 // end of its life in Unix seconds; 0: the slot is empty
	stamp     uint32 // X-Timestamp of its request
}

const (
	minPage  = 8
	maxPage  = 1024
	maxDepth = 24
)

// hashSeeds make it impossible to choose nonces that collide.
var hashSeeds = [2]uint64{rand.Uint64() | 1, rand.Uint64() | 1}

func makeSlot(digest *[16]byte, stamp, death int64) nonceSlot {
	return nonceSlot{
		high:  binary.LittleEndian.Uint64(digest[:8]),
		low:   binary.LittleEndian.Uint64(digest[8:]),
		death: clampSeconds(death),
		stamp: clampSeconds(stamp),
	}
}

// clampSeconds returns Unix seconds in 32 bits. A time before 1970 becomes 1, and
// one after 2106 the largest number.
func clampSeconds(s int64) uint32 { return uint32(min(max(s, 1), 1<<32-1)) }

func (s *nonceSlot) hash() uint64 {
	high, low := bits.Mul64(s.high^hashSeeds[0], s.low^hashSeeds[1])
	return high ^ low
}

// digest is the inverse of makeSlot.
func (s *nonceSlot) digest() (d [16]byte) {
	binary.LittleEndian.PutUint64(d[:8], s.high)
	binary.LittleEndian.PutUint64(d[8:], s.low)
	return d
}

func (n *nonces) page(hash uint64) *noncePage {
	return n.directory[hash>>(64-n.depth)]
}

// find returns the slot that holds the digest of s, dead or alive, or nil.
func (n *nonces) find(s *nonceSlot) *nonceSlot {
	if n.count == 0 {
		return nil
	}
	hash := s.hash()
	p := n.page(hash)
	if len(p.slots) == 0 {
		return nil
	}
	if at := &p.slots[p.probe(hash, s)]; at.death != 0 {
		return at
	}
	return nil
}

// insert adds a nonce that is not in the table. To make room it may drop nonces
// that are dead at now. It returns the latest stamp of those, or 0.
func (n *nonces) insert(s nonceSlot, now uint32) (dropped uint32) {
	if n.directory == nil {
		n.directory = []*noncePage{{}}
	}
	hash := s.hash()
	p := n.page(hash)
	if p.full() {
		var gone int
		gone, dropped = p.drop(now)
		n.count -= gone
		if p.crowded() {
			n.grow(p, hash)
			p = n.page(hash)
		}
	}
	p.slots[p.probe(hash, &s)] = s
	p.count++
	n.count++
	return dropped
}

// grow makes room in the page of the hash, by doubling or by splitting it.
func (n *nonces) grow(p *noncePage, hash uint64) {
	if len(p.slots) < maxPage || p.depth == maxDepth {
		p.resize(max(minPage, 2*len(p.slots)))
		return
	}
	if p.depth == n.depth {
		wide := make([]*noncePage, 2*len(n.directory))
		for i := range wide {
			wide[i] = n.directory[i/2]
		}
		n.directory = wide
		n.depth++
	}
	depth := p.depth + 1
	var halves [2]*noncePage
	for i := range halves {
		halves[i] = &noncePage{slots: make([]nonceSlot, maxPage), depth: depth}
	}
	for i := range p.slots {
		if s := &p.slots[i]; s.death != 0 {
			h := s.hash()
			half := halves[h>>(64-depth)&1]
			half.slots[half.probe(h, s)] = *s
			half.count++
		}
	}
	// The page's entries in the directory are neighbours.
	width := 1 << (n.depth - p.depth)
	first := int(hash>>(64-n.depth)) &^ (width - 1)
	for i := range width {
		n.directory[first+i] = halves[i*2/width]
	}
	if next := n.page(hash); next.full() { // all went to one side
		n.grow(next, hash)
	}
}

// sweep drops the nonces that are dead at now in the i-th page of the directory,
// and frees the memory that the page no longer needs. It returns the number of
// dropped nonces, their latest stamp, and whether there are further pages.
func (n *nonces) sweep(i int, now uint32) (gone int, dropped uint32, more bool) {
	if i >= len(n.directory) {
		return 0, 0, false
	}
	p := n.directory[i]
	gone, dropped = p.drop(now)
	n.count -= gone
	switch {
	case n.count == 0:
		*n = nonces{}
	case p.count == 0:
		p.slots = nil
	case p.count < len(p.slots)/8 && len(p.slots) > minPage:
		p.resize(max(minPage, len(p.slots)/4))
	}
	return gone, dropped, i+1 < len(n.directory)
}

// each calls f for every nonce, dead or alive.
func (n *nonces) each(f func(nonceSlot)) {
	for i := 0; i < len(n.directory); {
		p := n.directory[i]
		for _, s := range p.slots {
			if s.death != 0 {
				f(s)
			}
		}
		i += 1 << (n.depth - p.depth)
	}
}

// probe returns the index of the slot that holds the digest, or of the empty
// one where it belongs.
func (p *noncePage) probe(hash uint64, s *nonceSlot) int {
	mask := len(p.slots) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		if at := &p.slots[i]; at.death == 0 || (at.high == s.high && at.low == s.low) {
			return i
		}
	}
}

// full reports whether the page has no room for another nonce: seven eighths of
// its slots are used.
func (p *noncePage) full() bool { return p.count >= len(p.slots)*7/8 }

// crowded reports whether a page should grow after its dead nonces were dropped,
// because it would soon be full again.
func (p *noncePage) crowded() bool { return p.count >= len(p.slots)*5/8 }

func (p *noncePage) resize(size int) {
	old := p.slots
	p.slots = make([]nonceSlot, size)
	for i := range old {
		if s := &old[i]; s.death != 0 {
			p.slots[p.probe(s.hash(), s)] = *s
		}
	}
}

// drop removes the nonces that are dead at now, in place. It returns their number
// and their latest stamp.
func (p *noncePage) drop(now uint32) (gone int, latest uint32) {
	for i := range p.slots {
		for s := &p.slots[i]; s.death != 0 && s.death <= now; {
			latest = max(latest, s.stamp)
			p.remove(i)
			gone++
		}
	}
	p.count -= gone
	return gone, latest
}

// remove empties the slot i. It moves later nonces up if they would otherwise not
// be found any more.
func (p *noncePage) remove(i int) {
	mask := len(p.slots) - 1
	for j := (i + 1) & mask; p.slots[j].death != 0; j = (j + 1) & mask {
		home := int(p.slots[j].hash()) & mask
		if (j-home)&mask >= (j-i)&mask {
			p.slots[i] = p.slots[j]
			i = j
		}
	}
	p.slots[i] = nonceSlot{}
}
