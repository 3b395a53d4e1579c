package redis

import "fmt"

// A view is what is known of the servers. It is replaced, never changed.
type view struct {
	known   string // identities of the masters, as settle.lua compares them
	floor   int64  // replay floor in microseconds, without replay_floor_ahead; 0: none
	epoch   string // of the store; empty until it was seen
	problem error  // why the store is not ready
	unfit   bool   // the problem forbids every settle
	emptied uint64 // a bit for each range of slots that lost everything; without a cluster all or none
}

// forbids returns why no request of the key may be settled, or nil. What was
// emptied may come back without its latest nonces, so it is not served until a
// check has raised the floor.
func (v *view) forbids(id string) error {
	switch {
	case v.unfit:
		return v.problem
	case v.emptied != 0 && v.emptied&(1<<slotRange(id)) != 0:
		return errEmptied
	default:
		return nil
	}
}

func (v *view) equal(o *view) bool {
	return v.known == o.known && v.floor == o.floor && v.epoch == o.epoch && v.unfit == o.unfit && v.emptied == o.emptied &&
		fmt.Sprint(v.problem) == fmt.Sprint(o.problem)
}
