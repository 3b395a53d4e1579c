package file

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestNonces compares the nonces of a key with a model over random histories. They
// have enough nonces that the map grows, and enough dead ones that it is made anew.
func TestNonces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, serial := int64(1000), uint64(0)
		opt := Options{Clock: func() time.Time { return time.Unix(now, 0) }}
		st := newState(opt.withDefaults(), "")
		k := st.makeKey("key")
		want := map[[16]byte]nonce{}
		digestOf := func(n uint64) [16]byte {
			return [16]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), 8: byte(n * 31)}
		}
		check := func(n uint64) {
			digest := digestOf(n)
			switch got, ok := k.nonces[digest], want[digest]; {
			case !got.known() && int64(ok.death) > now:
				t.Fatalf("nonce %d is missing, it lives until %d and now is %d", n, ok.death, now)
			case !got.known() && int64(ok.stamp) > st.forgotten.Load():
				t.Fatalf("nonce %d of stamp %d was dropped, and only %d is forgotten", n, ok.stamp, st.forgotten.Load())
			case got.known() && got != ok:
				t.Fatalf("found %+v, want %+v", got, ok)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				for range rapid.IntRange(1, 3000).Draw(t, "how many") {
					serial++
					n := newNonce(now+int64(serial%600)-300, now+10+int64(serial*7%600))
					st.live.Add(1)
					k.keepNonce(digestOf(serial), n)
					want[digestOf(serial)] = n
				}
			},
			"wait": func(t *rapid.T) { now += rapid.Int64Range(0, 400).Draw(t, "for") },
			"sweep": func(t *rapid.T) {
				st.sweepKey(k, now)
				for digest, n := range k.nonces {
					if n.dead(now) {
						t.Fatalf("%x died at %d and is kept at %d", digest, n.death, now)
					}
				}
			},
			"": func(t *rapid.T) {
				// A few hundred of them, others each time: all would take a minute.
				step := serial/300 + 1
				for n := rapid.Uint64Range(1, step).Draw(t, "from"); n <= serial; n += step {
					check(n)
				}
				if live := st.live.Load(); live != int64(len(k.nonces)) {
					t.Fatalf("%d nonces, the count says %d", len(k.nonces), live)
				}
			},
		})
	})
}

// TestNoncesGiveBack: the memory of dead nonces is released.
func TestNoncesGiveBack(t *testing.T) {
	const many = 100_000
	opt := Options{}
	st := newState(opt.withDefaults(), "")
	k := st.makeKey("key")
	before := heap()
	for n := range uint64(many) {
		death := int64(100)
		if n%16 == 0 {
			death = 200
		}
		k.keepNonce([16]byte{byte(n), byte(n >> 8), byte(n >> 16)}, newNonce(1, death))
	}
	st.sweepKey(k, 100)
	if left := heap() - before; len(k.nonces) != many/16 || left > many*24/4 {
		t.Errorf("%d nonces are left, and %d bytes", len(k.nonces), left)
	}
	if st.sweepKey(k, 200); k.nonces != nil {
		t.Errorf("%d nonces are left", len(k.nonces))
	}
}
