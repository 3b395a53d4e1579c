package redis

import (
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// If a slot stays half moved, the requests of its keys fail, and those of other
// keys of the same master do not.
func TestHalfMovedSlot(t *testing.T) {
	t.Parallel()
	nodes := redistest.OwnCluster(t)
	opt := Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(nodes)}}
	other := open(t, opt)
	bad, good := newRecord(), newRecord()
	for good.ID = newRecord().ID; owner(redistest.Slot(good.ID)) != owner(redistest.Slot(bad.ID)) || redistest.Slot(good.ID) == redistest.Slot(bad.ID); {
		good.ID = newRecord().ID
	}
	put(t, other, bad)
	put(t, other, good)
	flows(t, other, bad, 5*time.Second)
	from, to := openSlot(t, nodes, redistest.Slot(bad.ID))
	nodes[from].Do(t, "migrate", "127.0.0.1", nodes[to].Port, other.names.record(bad.ID), 0, 60_000)

	s := open(t, impatient(opt))
	flows(t, s, good, 5*time.Second)
	failAlone(t, s, bad, "TRYAGAIN")
	if s.client.Breaker(nodes[from].Addr).Open() {
		t.Error("the breaker of the master is open")
	}
	flows(t, s, good, 5*time.Second)
}

// owner returns the index of the master, of three, that has a slot at first.
func owner(slot int) int { return slot * 3 / redistest.Slots }
