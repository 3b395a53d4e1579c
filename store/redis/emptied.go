package redis

import "math"

// sawEmptied notes that the part of the store that holds the name was emptied. From
// then on nothing of it is settled before a check has raised the floor: the next
// check may find an old copy in its place, and nothing missing. It waits for no
// check.
func (s *servers) sawEmptied(name string) {
	bits := uint64(math.MaxUint64)
	if s.cluster != nil {
		bits = 1 << slotRange(name)
	}
	s.lost.Store(true)
	s.unfenced.Or(bits)
	s.forbidUnfenced()
}

// forbidUnfenced notes in the view what requests have seen emptied since the last
// check began.
func (s *servers) forbidUnfenced() {
	for {
		before := s.view.Load()
		next := *before
		if next.emptied |= s.unfenced.Load(); next.emptied == before.emptied || s.view.CompareAndSwap(before, &next) {
			return
		}
	}
}
