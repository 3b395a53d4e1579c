package file

// nonces are the nonces of one key by their digests, with dead ones that were not
// dropped yet. There are no pointers in it, so that the garbage collector has
// nothing to scan.
type nonces map[[16]byte]nonce

// A nonce is what is known of one. The zero value is no nonce.
type nonce struct {
	death uint32 // end of its life in Unix seconds
	stamp uint32 // X-Timestamp of its request
}

func newNonce(stamp, death int64) nonce {
	return nonce{death: clampSeconds(death), stamp: clampSeconds(stamp)}
}

// known reports whether there is a nonce, dead or alive.
func (n nonce) known() bool { return n.death != 0 }

// dead reports whether its life has ended at now, in Unix seconds.
func (n nonce) dead(now int64) bool { return n.death <= clampSeconds(now) }

// clampSeconds returns Unix seconds in 32 bits. A time before 1970 becomes 1, and
// one after 2106 the largest number.
func clampSeconds(s int64) uint32 { return uint32(min(max(s, 1), 1<<32-1)) }

const (
	// sweepStep is the number of nonces after which a sweep lets requests of the key
	// pass.
	sweepStep = 1024
	// shrinkBelow is the part of its largest size at which a map is made anew: one
	// from which nonces are deleted keeps its memory.
	shrinkBelow = 8
)

// keepNonce adds a nonce that is new to the key, or puts a live one in place of a
// dead one. The caller must hold the key's lock, or be the only user of the state.
func (k *keyState) keepNonce(digest [16]byte, n nonce) {
	if k.nonces == nil {
		k.nonces = make(nonces)
	}
	k.nonces[digest] = n
	k.mostNonces = max(k.mostNonces, len(k.nonces))
}

// sweepKey drops the nonces of a key that are dead at now, and levels of its
// buckets that are empty.
func (st *state) sweepKey(k *keyState, now int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen := 0
	for digest := range k.nonces {
		// Read again: while requests passed, another sweep may have made the map anew.
		if n := k.nonces[digest]; n.known() && n.dead(now) {
			st.forget(n.stamp)
			delete(k.nonces, digest)
			st.live.Add(-1)
		}
		if seen++; seen%sweepStep == 0 {
			k.mu.Unlock()
			k.mu.Lock()
		}
	}
	if len(k.nonces) < k.mostNonces/shrinkBelow || len(k.nonces) == 0 {
		left := k.nonces
		k.nonces, k.mostNonces = nil, 0
		for digest, n := range left {
			k.keepNonce(digest, n)
		}
	}
	k.dropBuckets(st.limits.at(st.opt.Clock()))
}

// makeRoom drops nonces that are dead at now, when a cap is reached, but at most
// once a second. It reports whether it did.
func (st *state) makeRoom(k *keyState, now int64) bool {
	k.mu.Lock()
	swept := k.lastSweep == now
	k.lastSweep = now
	k.mu.Unlock()
	if !swept {
		st.sweepKey(k, now)
	}
	if st.live.Load() < st.opt.MaxNonces {
		return !swept
	}
	if st.lastSweep.Swap(now) == now {
		return false
	}
	st.eachKey(func(k *keyState) { st.sweepKey(k, now) })
	return true
}

// takeRoom counts one more nonce, and returns false if that would exceed one of
// the caps.
func (k *keyState) takeRoom(st *state) bool {
	if int64(len(k.nonces)) >= st.opt.MaxNoncesPerKey {
		return false
	}
	if st.live.Add(1) > st.opt.MaxNonces {
		st.live.Add(-1)
		return false
	}
	return true
}
