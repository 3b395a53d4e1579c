package file

import (
	"encoding/binary"
	"slices"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// origins are what a key knows of the holders of addresses. Their numbers are those of
// [store.Claim.Origin].
type origins struct {
	// accepted are two whose requests were accepted, the one that was noted last first,
	// each with its [store.Claim.Tick]. Two suffice: one of them is not the next caller.
	accepted [2]pair
	parts    []pair // what each has added to the failure count while others used the key
}

// A pair is a number by another: the tick or the part of an origin, or the minute in
// which a version of the secret was last used.
type pair struct{ of, n int64 }

const pairBytes = 16 // in the journal

// busyBeside reports whether the key was lately accepted from another holder.
func (o *origins) busyBeside(c *store.Claim) bool {
	return slices.ContainsFunc(o.accepted[:], func(a pair) bool {
		age := c.Tick() - a.n
		return a.of != int64(c.Origin()) && age <= store.BusyTicks && age >= -store.BusyTicks
	})
}

// noted returns what is known of accepted requests after that of the claim, and
// whether that is something new. Two of this tick are enough.
func (o *origins) noted(c *store.Claim) (after [2]pair, changed bool) {
	now, one, two := pair{int64(c.Origin()), c.Tick()}, o.accepted[0], o.accepted[1]
	if c.DryRun || one == now || two.n == now.n {
		return o.accepted, false
	}
	if one.of != now.of {
		two = one
	}
	return [2]pair{now, two}, true
}

// withFailure returns the parts after a failure of the claim's holder, or false if it
// has added its share already.
func (o *origins) withFailure(c *store.Claim) (parts []pair, counted bool) {
	if !o.busyBeside(c) {
		return o.parts, true
	}
	origin := int64(c.Origin())
	switch i := slices.IndexFunc(o.parts, func(p pair) bool { return p.of == origin }); {
	case i >= 0 && o.parts[i].n >= int64(auth.LockShare(c.LockAfter)):
		return o.parts, false
	case i >= 0:
		parts = slices.Clone(o.parts)
		parts[i].n++
		return parts, true
	case len(o.parts) < store.MaxParts:
		return append(slices.Clip(o.parts), pair{origin, 1}), true
	default:
		return o.parts, true
	}
}

// appendTo encodes the origins for the journal.
func (o *origins) appendTo(dst []byte) []byte {
	return appendPairs(appendPairs(dst, o.accepted[:]), o.parts)
}

// readOrigins is the inverse of appendTo.
func readOrigins(text string) (o origins) {
	all := readPairs(text)
	o.parts = slices.Clip(all[copy(o.accepted[:], all):])
	return o
}

func appendPairs(dst []byte, all []pair) []byte {
	for _, p := range all {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(p.of))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(p.n))
	}
	return dst
}

func readPairs(text string) (all []pair) {
	for b := []byte(text); len(b) >= pairBytes; b = b[pairBytes:] {
		all = append(all, pair{int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))})
	}
	return all
}
