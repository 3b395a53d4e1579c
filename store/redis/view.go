package redis

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A view is the known state of the servers. It is replaced, never changed.
type view struct {
	known   string // identities of the masters, as settle.lua compares them
	floor   int64  // replay floor of all keys in microseconds, without replay_floor_ahead; 0: none
	fences  fences // replay floors of some slots
	epoch   string // of the store; empty until it was seen
	making  bool   // the copies of the epoch are being made: the store is new
	created bool   // the check that made this view made the epoch
	problem error  // why the store is not ready
	// Troubles of a ready store: of requests of some keys, or of changes of keys.
	degraded []string
	partial  bool   // there may be other masters
	unfit    bool   // the problem forbids every settle
	emptied  uint64 // a bit for each range of slots that lost everything; without a cluster all or none
}

// forbids returns why no request of the key may be settled, or nil. An emptied
// part of the store may be restored without its latest nonces, so its keys are not
// served until a check has raised the floor.
func (v *view) forbids(id string) error {
	switch {
	case v.unfit:
		return v.problem
	case v.making:
		return errBeingMade
	case v.emptied != 0 && v.emptied&(1<<slotRange(id)) != 0:
		return errEmptied
	default:
		return nil
	}
}

// floorOf returns the replay floor of a key, or 0 if there is none.
func (v *view) floorOf(id string) int64 {
	if len(v.fences) == 0 {
		return v.floor
	}
	return max(v.floor, v.fences.at(slot(id)))
}

// highest returns the latest of all floors.
func (v *view) highest() int64 {
	floor := v.floor
	for i := range v.fences {
		floor = max(floor, v.fences[i].at)
	}
	return floor
}

func (v *view) equal(o *view) bool {
	return v.known == o.known && v.floor == o.floor && slices.Equal(v.fences, o.fences) && v.epoch == o.epoch && v.making == o.making && v.unfit == o.unfit && v.emptied == o.emptied && slices.Equal(v.degraded, o.degraded) &&
		fmt.Sprint(v.problem) == fmt.Sprint(o.problem)
}

// degrade notes trouble that leaves the store ready.
func (v *view) degrade(err error) {
	if err != nil {
		v.degraded = append(v.degraded, err.Error())
	}
}

// conclude returns the first problem if no master accepts requests. Otherwise all
// problems degrade the store.
func (v *view) conclude(usable []serverInfo, problems []error) error {
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
// another part was emptied, but not while the store is being made.
func (v *view) servesWithout(err error) bool {
	var unfit *UnfitError
	return v.known != "" && v.partial && !v.making && !errors.As(err, &unfit) && v.emptied != math.MaxUint64
}
