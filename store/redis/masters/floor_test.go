package masters

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// A gateway takes over the floor of another gateway at its next check.
func TestFloorIsShared(t *testing.T) {
	opt, prefix := rpc.Options{URL: redistest.SharedSingle(t).URL()}, rand.Text()+":"
	a, b := begun(t, watcherOf(t, opt, prefix)), begun(t, watcherOf(t, opt, prefix))
	if _, err := a.runAdopt(ctx, "", adoption{raise: true}, new(View)); err != nil {
		t.Fatal(err)
	}
	if err := a.check(ctx, mayBegin); err != nil {
		t.Fatal(err)
	}
	if err := b.check(ctx, mayBegin); err != nil {
		t.Fatal(err)
	}
	if got, want := b.View().Floor, a.View().Floor; got != want || got == 0 {
		t.Errorf("floor %d, want %d", got, want)
	}
}

// A gateway that was cut off with an old master raises the floor to its own
// last acceptance when it reaches the new master.
func TestLeastFloor(t *testing.T) {
	tests := []struct {
		name     string
		cluster  bool
		seen     []string // in this order
		servers  []string
		wantLast bool
	}{
		{"first look", false, nil, []string{"a"}, false},
		{"same server", false, []string{"a"}, []string{"a"}, false},
		{"another server", false, []string{"a"}, []string{"b"}, true},
		{"back to the first", false, []string{"a", "b"}, []string{"a"}, true},
		{"cluster, one away", true, []string{"a", "b", "c"}, []string{"a", "c"}, false},
		{"cluster, all back", true, []string{"a", "b", "c"}, []string{"a", "b", "c"}, false},
		{"cluster, a new one", true, []string{"a", "b", "c"}, []string{"a", "b", "d"}, true},
	}
	for _, tt := range tests {
		opt := rpc.Options{URL: "redis://127.0.0.1:1"}
		slotsOf := func(string) *slotSet { return allSlots() }
		if tt.cluster {
			slotsOf = func(id string) *slotSet { // a, b, and c or its successor d
				third := min(int(id[0]-'a'), 2)
				var s slotSet
				s.add(third*slots/3, (third+1)*slots/3-1)
				return &s
			}
			opt = rpc.Options{ClusterAddrs: []string{"127.0.0.1:1"}}
		}
		w := watcher(t, opt)
		for _, id := range tt.seen {
			w.observations.remember([]serverInfo{{identity: id, slots: slotsOf(id)}})
		}
		for i := range 3000 { // in many slots of all masters
			w.BeatOf(fmt.Sprint(i)).Note(7, time.Now())
			w.BeatOf(fmt.Sprint(i)).Note(5, time.Now())
		}
		var servers []serverInfo
		for _, id := range tt.servers {
			servers = append(servers, serverInfo{identity: id, slots: slotsOf(id)})
		}
		want := int64(0)
		if tt.wantLast {
			want = 7
		}
		got := int64(0)
		for args := range slices.Chunk(w.adoption(servers).servers, 5) {
			got = max(got, leastFloor(args))
		}
		if got != want {
			t.Errorf("%s: %d, want %d", tt.name, got, want)
		}
	}
}

// While it is found out whether a promoted server has everything, this gateway goes
// on with the other masters. What it accepts there does not raise the floor of the
// slots that were lost, unless slots have moved.
func TestLastAcceptanceBySlots(t *testing.T) {
	w := watcher(t, rpc.Options{ClusterAddrs: []string{"127.0.0.1:1"}})
	lower, upper := new(slotSet), new(slotSet)
	lower.add(0, slots/2-1)
	upper.add(slots/2, slots-1)
	keyOf := func(of *slotSet) string {
		for {
			if id := rand.Text(); of.has(slot(id)) {
				return id
			}
		}
	}
	w.observations.remember([]serverInfo{{identity: "a", slots: lower}, {identity: "b", slots: upper}})
	w.BeatOf(keyOf(lower)).Note(5, time.Now())
	w.BeatOf(keyOf(upper)).Note(9, time.Now())
	promoted := serverInfo{identity: "x", slots: lower}
	least := func(other *slotSet) int64 {
		return leastFloor(w.adoption([]serverInfo{promoted, {identity: "b", slots: other}}).servers)
	}
	if got := least(upper); got != 5 {
		t.Errorf("the floor is at least %d, want 5, the last acceptance on the server that was lost", got)
	}
	if got := least(new(slotSet)); got != 9 {
		t.Errorf("the floor is at least %d, want 9: slots have moved", got)
	}
}

// leastFloor returns that of a server's slots, from its arguments of adopt.lua.
func leastFloor(server []any) int64 { return server[3].(int64) }
