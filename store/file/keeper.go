package file

import (
	"fmt"
	"slices"
	"time"

	"github.com/card-gateway/card-gateway/store/file/journal"
)

// The keeper is the one goroutine of a store. It does the work for which no
// request should wait.
const (
	keepEvery  = time.Second
	sweepEvery = 10 // times keepEvery
)

// keepUp runs until stop is closed.
func (st *state) keepUp(stop <-chan struct{}) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-stop:
			return
		case <-st.journal.Wake:
			st.keep(st.opt.Clock().Unix())
		case <-tick.C:
			st.keep(st.opt.Clock().Unix())
			if n++; n%sweepEvery == 0 {
				st.sweepAll(st.opt.Clock().Unix())
			}
		}
	}
}

// keep makes the next segment of the journal, writes locks into the key file
// and removes segments in which every nonce is dead at now.
func (st *state) keep(now int64) {
	st.keeping.Lock()
	defer st.keeping.Unlock()
	_ = st.journal.Prepare() // reports problems itself
	st.changes.Lock()
	if err := st.recordLocks(); err != nil {
		st.opt.OnProblem(fmt.Errorf("a lock is in the journal only: %w", err))
	}
	st.prepareSpare()
	st.changes.Unlock()
	st.rescue(now)
	dead := st.journal.Tidy(now)
	if len(dead) == 0 || st.unfolded.Load() {
		return
	}
	if err := st.retire(dead, now); err != nil {
		st.opt.OnProblem(fmt.Errorf("removing old parts of the journal: %w", err))
	}
}

// recordLocks writes the locks into the key file that are in the journal only. The caller
// must hold st.changes.
func (st *state) recordLocks() (err error) {
	if !st.unfolded.Swap(false) {
		return nil
	}
	st.eachKey(func(k *keyState) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if stored := k.stored.Load(); k.unfolded && stored != nil && err == nil {
			err = st.record(stored.change())
			k.unfolded = err != nil
		}
	})
	if err != nil {
		st.unfolded.Store(true)
	}
	return err
}

// retire removes segments. Before that, it writes anew what is still needed of
// them: the state of keys, and up to which timestamp nonces are forgotten.
func (st *state) retire(dead []*journal.Segment, now int64) (err error) {
	last := dead[len(dead)-1].ID
	st.eachKey(func(k *keyState) {
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case err != nil || k.carried == 0 || k.carried > last:
		case k.blank():
			k.carried = 0
		default:
			err = k.carry(st, now)
		}
	})
	if err != nil || st.unfolded.Load() { // a lock has come, which only one of these may hold
		return err
	}
	if slices.ContainsFunc(dead, func(s *journal.Segment) bool { return s.Shortened }) {
		st.eachKey(func(k *keyState) { st.sweepKey(k, now) }) // forgets exactly what is dead
	}
	for _, s := range dead {
		if !s.Shortened {
			st.forget(clampSeconds(s.LastStamp))
		}
	}
	return st.journal.Drop(dead, now)
}

// carry writes all of the key's state except its nonces into the journal. The
// caller must hold the key's lock.
func (k *keyState) carry(st *state, now int64) error {
	clock := st.opt.Clock()
	k.dropBuckets(st.limits.at(clock))
	e := journal.Entry{
		Kind: journal.KindState, Now: now, Key: k.id, Failures: int64(k.failures),
		Extra: string(k.appendState(nil)), Buckets: k.buckets, Ahead: st.limits.lag(clock),
	}
	segment, err := st.journal.Append(&e)
	if err == nil {
		k.carried = segment
	}
	return err
}

// blank reports whether there is nothing to carry.
func (k *keyState) blank() bool {
	return k.failures == 0 && len(k.buckets) == 0 && len(k.used) == 0 && k.accepted[0].n == 0
}

// sweepAll drops all nonces that are dead at now, and the keys that then have no
// state left.
func (st *state) sweepAll(now int64) {
	st.eachKey(func(k *keyState) { st.sweepKey(k, now) })

	st.changes.Lock()
	defer st.changes.Unlock()
	st.eachKey(func(k *keyState) {
		k.mu.Lock()
		gone := k.stored.Load() == nil && len(k.nonces) == 0
		k.mu.Unlock()
		if gone {
			sh := st.shard(k.id)
			sh.mu.Lock()
			delete(sh.keys, k.id)
			sh.mu.Unlock()
		}
	})
}

// rescue keeps the journal from growing for ever after the clock went back. A
// nonce that was accepted when the clock was far ahead dies in the far future.
// Until then its segment, and all later ones, could not be removed. So rescue
// writes such nonces anew, and the segments are kept only as long as usual.
func (st *state) rescue(now int64) {
	limit, last, stuck := st.journal.Stuck(now)
	if !stuck {
		return
	}
	var err error
	st.eachKey(func(k *keyState) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if err == nil {
			err = k.carryNonces(st, now, limit)
		}
	})
	if err != nil {
		st.opt.OnProblem(fmt.Errorf("keeping the journal short after the clock went back: %w", err))
		return
	}
	st.journal.Shorten(limit, last)
}

// rewrite writes all state into new segments, so that the old segments, some of
// which are damaged, can be removed.
func (st *state) rewrite(old []*journal.Segment, now int64) (err error) {
	st.eachKey(func(k *keyState) {
		if err == nil {
			err = k.carryNonces(st, now, now)
		}
		if err == nil {
			err = k.carry(st, now)
		}
	})
	if err == nil {
		err = st.journal.Drop(old, now)
	}
	return err
}

// carryNonces writes into the journal the nonces that die after a moment.
func (k *keyState) carryNonces(st *state, now, after int64) (err error) {
	for digest, n := range k.nonces {
		if err == nil && int64(n.death) > after {
			_, err = st.journal.Append(&journal.Entry{
				Kind: journal.KindNonce, Now: now, First: int64(n.stamp), Second: int64(n.death),
				Nonce: digest, Key: k.id,
			})
		}
	}
	return err
}
