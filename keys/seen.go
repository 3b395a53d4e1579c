package keys

import (
	"hash/maphash"
	"sync"
)

// A Seen remembers the highest document version of each sealed record that was
// seen. So no older record of a key is accepted in its place, and none without a
// seal. A process needs one for each store, for as long as it uses the store.
type Seen struct {
	mu       sync.Mutex
	seed     maphash.Seed
	versions map[uint64]seenVersion // by the hash of the id
	room     int
}

// A seenVersion is the highest document version of a key.
type seenVersion struct {
	version uint64
	gone    bool // the record of this version was deleted
}

// maxSeen bounds the number of keys whose version is remembered, 40 bytes for
// each. To remember another, one is forgotten, no matter which.
const maxSeen = 1 << 20

// NewSeen returns an empty memory.
func NewSeen() *Seen {
	return &Seen{seed: maphash.MakeSeed(), versions: make(map[uint64]seenVersion), room: maxSeen}
}

// of returns the highest version of the key; 0 if none was seen.
func (s *Seen) of(id string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[maphash.String(s.seed, id)].version
}

// raise remembers a version of the key. It returns false, and remembers nothing,
// for one that must not be accepted any more.
func (s *Seen) raise(id string, version uint64) bool {
	hash := maphash.String(s.seed, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, known := s.versions[hash]
	switch {
	case version < seen.version || version == seen.version && seen.gone:
		return false
	case version == seen.version && known:
		return true
	}
	if !known && len(s.versions) >= s.room {
		for other := range s.versions {
			delete(s.versions, other)
			break
		}
	}
	s.versions[hash] = seenVersion{version: version}
	return true
}

// gone remembers that the key has no record any more, if the given version still
// is the highest.
func (s *Seen) gone(id string, version uint64) {
	hash := maphash.String(s.seed, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, known := s.versions[hash]; known && seen.version == version {
		s.versions[hash] = seenVersion{version, true}
	}
}
