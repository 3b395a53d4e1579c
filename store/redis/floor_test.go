package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// setClockBack checks the servers as if their clocks had been far ahead at the
// check before.
func setClockBack(t testing.TB, s *Store) {
	t.Helper()
	s.servers.checking.Lock()
	defer s.servers.checking.Unlock()
	for run, c := range s.servers.observations.clocks.readings {
		c.ahead += 400 * time.Second
		s.servers.observations.clocks.readings[run] = c
	}
	if err := s.servers.checkLocked(ctx, mayBegin); err != nil {
		t.Fatal(err)
	}
}

// A server whose clock was far ahead has dropped live nonces. When the clock is
// right again, requests from before are refused.
func TestFloorAfterWrongClock(t *testing.T) {
	s := open(t, single(t))
	r := newKey(t, s)
	c := newClaim(r)
	expect(t, s, c, auth.Accepted)
	setClockBack(t, s)
	expect(t, s, again(c), auth.ReplayedNonce)
	expect(t, s, newClaim(r), auth.ReplayFloor)
	expect(t, s, ahead(newClaim(r), 6), auth.Accepted)
}

// A gateway takes over the floor of another gateway at its next check.
func TestFloorIsShared(t *testing.T) {
	a, b := pair(t, single(t))
	setClockBack(t, a)
	if err := b.servers.check(ctx, mayBegin); err != nil {
		t.Fatal(err)
	}
	if got, want := b.servers.view.Load().floor, a.servers.view.Load().floor; got != want || got == 0 {
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
		opt := Options{URL: "redis://127.0.0.1:1"}
		slotsOf := func(string) *slotSet { return allSlots() }
		if tt.cluster {
			slotsOf = func(id string) *slotSet { // a, b, and c or its successor d
				third := min(int(id[0]-'a'), 2)
				var s slotSet
				s.add(third*slots/3, (third+1)*slots/3-1)
				return &s
			}
			opt = Options{ClusterAddrs: []string{"127.0.0.1:1"}}
		}
		s, err := New(opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range tt.seen {
			s.servers.observations.remember([]serverInfo{{identity: id, slots: slotsOf(id)}})
		}
		for i := range 3000 { // on all masters
			s.servers.accepted(fmt.Sprint(i), 7)
			s.servers.accepted(fmt.Sprint(i), 5)
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
		for _, one := range s.servers.adoption(servers).servers {
			got = max(got, one.least)
		}
		if got != want {
			t.Errorf("%s: %d, want %d", tt.name, got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// While it is found out whether a promoted server has everything, this gateway goes
// on with the other masters. What it accepts there does not raise the floor of the
// slots that were lost, unless slots have moved.
func TestLastAcceptanceBySlots(t *testing.T) {
	s, err := New(Options{ClusterAddrs: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lower, upper := new(slotSet), new(slotSet)
	lower.add(0, slots/2-1)
	upper.add(slots/2, slots-1)
	keyOf := func(of *slotSet) string {
		for {
			if id := newRecord().ID; of.has(slot(id)) {
				return id
			}
		}
	}
	s.servers.observations.remember([]serverInfo{{identity: "a", slots: lower}, {identity: "b", slots: upper}})
	s.servers.accepted(keyOf(lower), 5)
	s.servers.accepted(keyOf(upper), 9)
	promoted := serverInfo{identity: "x", slots: lower}
	least := func(other *slotSet) int64 {
		return s.servers.adoption([]serverInfo{promoted, {identity: "b", slots: other}}).servers[0].least
	}
	if got := least(upper); got != 5 {
		t.Errorf("the floor is at least %d, want 5, the last acceptance on the server that was lost", got)
	}
	if got := least(new(slotSet)); got != 9 {
		t.Errorf("the floor is at least %d, want 9: slots have moved", got)
	}
}
