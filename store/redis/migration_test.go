package redis

import (
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A slot that is left half moved costs the requests of its keys, and not those
// of the other keys of the same master.
func TestHalfMovedSlot(t *testing.T) {
	t.Parallel()
	nodes := ownCluster(t)
	opt := Options{ClusterAddrs: addrs(nodes)}
	other := open(t, opt)
	bad, good := newRecord(), newRecord()
	for good.ID = newRecord().ID; owner(slot(good.ID)) != owner(slot(bad.ID)) || slot(good.ID) == slot(bad.ID); {
		good.ID = newRecord().ID
	}
	put(t, other, bad)
	put(t, other, good)
	flows(t, other, bad, 5*time.Second)
	from, to := openSlot(t, nodes, slot(bad.ID))
	nodes[from].do(t, "migrate", "127.0.0.1", nodes[to].port, other.names.record(bad.ID), 0, 60_000)

	s := open(t, impatient(opt))
	flows(t, s, good, 5*time.Second)
	failAlone(t, s, bad, "TRYAGAIN")
	if state := s.breakers.at(nodes[from].addr).State(); state != gobreaker.StateClosed {
		t.Errorf("the breaker of the master is %v", state)
	}
	flows(t, s, good, 5*time.Second)
}

// owner is the index of the master, of three, that a slot is given at first.
func owner(slot int) int { return slot * 3 / slots }
