package file

import (
	"fmt"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// forget records that nonces with timestamps up to stamp were dropped.
func (st *state) forget(stamp uint32) {
	for {
		old := st.forgotten.Load()
		if stamp == 0 || int64(stamp) <= old || st.forgotten.CompareAndSwap(old, int64(stamp)) {
			return
		}
	}
}

// mayBeLost reports whether the request may repeat one whose nonce was lost or
// dropped, and the replay floor of the contract, if so.
func (st *state) mayBeLost(c *store.Claim) (floor time.Time, lost bool) {
	until := st.forgotten.Load() * 1e9
	if raised := st.floor.Load(); raised != 0 {
		until = max(until, raised+int64(c.ReplayFloorAhead))
	}
	if c.Timestamp*1e9 > until {
		return floor, false
	}
	return time.Unix(0, until), true
}

// clockWasAhead returns an error while no request that is stamped now can be
// accepted. This happens when the clock was ahead and has gone back: nonces with
// timestamps later than now were lost or dropped.
func (st *state) clockWasAhead() error {
	until := time.Unix(0, max(st.floor.Load(), st.forgotten.Load()*1e9))
	if !until.After(st.opt.Clock()) {
		return nil
	}
	return fmt.Errorf("%w: the clock was ahead, requests stamped up to %s are refused; wait, or, if that was a mistake, stop the gateway and move the directory %s away",
		store.ErrUnavailable, until.UTC().Format(time.RFC3339), journalDir)
}

// raiseFloor records that nonces may have been lost up to the floor, a moment in
// nanoseconds of Unix time.
func (st *state) raiseFloor(floor int64) {
	if floor > st.floor.Load() {
		st.floor.Store(floor)
	}
}
