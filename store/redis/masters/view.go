package masters

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// A View is the known state of the servers. It is replaced, never changed.
type View struct {
	Known string // identities of the masters, as settle.lua compares them
	Floor int64  // replay floor of all keys in microseconds, without replay_floor_ahead; 0: none

	fences  fences // replay floors of some slots
	epoch   string // of the store; empty until it was seen
	problem error  // why the store is not ready
	// Troubles of a ready store: of requests of some keys, or of changes of keys.
	degraded []string
	partial  bool // there may be other masters
	unfit    bool // the problem forbids every settle
}

// Forbids returns why no request may be settled, or nil.
func (v *View) Forbids() error {
	if v.unfit {
		return v.problem
	}
	return nil
}

// FloorOf returns the replay floor of a key, or 0 if there is none.
func (v *View) FloorOf(id string) int64 {
	if len(v.fences) == 0 {
		return v.Floor
	}
	return v.floorOfSlot(slot(id))
}

func (v *View) floorOfSlot(n int) int64 { return max(v.Floor, v.fences.at(n)) }

// Highest returns the latest of all floors.
func (v *View) Highest() int64 {
	floor := v.Floor
	for i := range v.fences {
		floor = max(floor, v.fences[i].at)
	}
	return floor
}

func (v *View) equal(o *View) bool {
	return v.Known == o.Known && v.Floor == o.Floor && slices.Equal(v.fences, o.fences) && v.epoch == o.epoch && v.unfit == o.unfit && slices.Equal(v.degraded, o.degraded) &&
		fmt.Sprint(v.problem) == fmt.Sprint(o.problem)
}

// degrade notes trouble that leaves the store ready.
func (v *View) degrade(err error) {
	if err != nil {
		v.degraded = append(v.degraded, err.Error())
	}
}

// conclude returns the first problem if no master accepts requests. Otherwise all
// problems degrade the store.
func (v *View) conclude(usable []serverInfo, problems []error) error {
	accepting := 0
	for i := range usable {
		if problem := usable[i].refusing(); problem != nil {
			problems = append(problems, problem)
		} else {
			accepting++
		}
	}
	if accepting == 0 {
		return problems[0]
	}
	for _, problem := range problems {
		v.degrade(problem)
	}
	return nil
}

// servesWithout reports whether requests can be accepted although the servers as a
// whole have the error: on a cluster, if another master holds the shared state, or
// another part was emptied.
func (v *View) servesWithout(err error) bool {
	var unfit *rpc.UnfitError
	return v.Known != "" && v.partial && !errors.As(err, &unfit)
}

// observations are what this gateway has found out about the servers since it started.
type observations struct {
	slots     map[string]*slotSet // of the servers that were used, by identity
	last      string              // identity of the master; used without a cluster
	sighted   map[string]sighting
	inspected map[string]inspection // by identity
	following map[string]int64      // by run, the most replicas that were seen
}

func newObservations() observations {
	return observations{slots: map[string]*slotSet{}, sighted: map[string]sighting{}, inspected: map[string]inspection{}, following: map[string]int64{}}
}

// remember notes that the other gateways know the result of the check. It returns the
// identities as settle.lua compares them.
func (m *observations) remember(masters []serverInfo) string {
	all := make([]string, len(masters))
	for i := range masters {
		m.last, all[i] = masters[i].identity, masters[i].identity
		m.slots[m.last] = masters[i].slots
	}
	return strings.Join(all, ",")
}

// knows reports whether this gateway has used the server.
func (m *observations) knows(identity string) bool {
	_, found := m.slots[identity]
	return found
}

// exposed returns the slots in which a master may lack nonces: all except those
// that another master serves and served before.
func (m *observations) exposed(masters []serverInfo, master int) *slotSet {
	left := allSlots()
	for i := range masters {
		if before := m.slots[masters[i].identity]; i != master && before != nil {
			left = left.without(masters[i].slots, before)
		}
	}
	return left
}

// mostReplicas returns how many replicas belong to the server: the most that it had, because
// those that are away may come back.
func (m *observations) mostReplicas(i *serverInfo) int64 {
	m.following[i.run] = max(m.following[i.run], i.replicas, i.owned)
	return m.following[i.run]
}

// A sighting is when a server was first seen that takes writes. Before that, the master
// that it replaces may have accepted requests: in a cut network, with a replica.
type sighting struct {
	at     int64 // by its own clock, microseconds
	local  time.Time
	denied bool
}

// sight notes when the servers that are new to this gateway were first seen.
func (m *observations) sight(masters []serverInfo) {
	for i := range masters {
		if before, found := m.sighted[masters[i].identity]; !found || before.denied {
			m.sighted[masters[i].identity] = sighting{masters[i].now.UnixMicro(), time.Now(), masters[i].denied != nil}
		}
	}
}

// replaced reports whether the server continues the history of one that this
// gateway has used.
func (m *observations) replaced(i *serverInfo) bool {
	for identity := range m.slots {
		if _, replication, _ := strings.Cut(identity, "."); strings.HasPrefix(i.replication2, replication) {
			return true
		}
	}
	return false
}

// maxFloorAhead is how far a floor may be ahead of this gateway's clock. Gateways
// raise floors to the time of servers whose clock is right, so MaxSkew would do; what
// is damaged is further away than a month.
const maxFloorAhead = 30 * 24 * time.Hour
