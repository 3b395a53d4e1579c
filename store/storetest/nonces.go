package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// testNoncePerKey checks that each key has its own nonces.
func testNoncePerKey(t *testing.T, open Factory) {
	w := newWorld(t, open)
	a, b := w.claim(w.newKey()), w.claim(w.newKey())
	b.Nonce = a.Nonce
	w.expect(a, auth.Accepted)
	w.expect(b, auth.Accepted)
	w.expect(a, auth.ReplayedNonce)
	w.expect(b, auth.ReplayedNonce)

	// Nonces that differ in one bit are different.
	for bit := range 128 {
		c := w.claim(w.newKey())
		w.expect(c, auth.Accepted)
		c.Nonce[bit/8] ^= 1 << (bit % 8)
		w.expect(c, auth.Accepted)
	}
}

// testNonceLife repeats a request at every second until its timestamp can no
// longer pass. It must never be accepted twice.
func testNonceLife(t *testing.T, open Factory) {
	w := newWorld(t, open)
	if w.Advance == nil {
		w.replayWithoutTime()
		return
	}
	for _, offset := range []int64{-300, -299, -1, 0, 1, 150, 299, 300} {
		t.Run(fmt.Sprintf("stamped %+d s", offset), func(t *testing.T) {
			w.TB = t
			r := w.newKey()
			c := w.claim(r)
			c.Timestamp += offset
			w.expect(c, auth.Accepted)
			last := c.Timestamp + 300
			for w.Now().Unix() <= last+15 {
				again := w.claim(r)
				again.Nonce, again.Timestamp = c.Nonce, c.Timestamp
				want := auth.ReplayedNonce
				if again.Now.Unix() > last {
					want = auth.TimestampOutOfWindow
				}
				w.expect(again, want)
				w.Advance(time.Second)
			}
		})
	}
	t.Run("used again for another request", func(t *testing.T) {
		w.TB = t
		r := w.newKey()
		c := w.claim(r)
		w.expect(c, auth.Accepted)
		w.Advance(309 * time.Second)
		again := w.claim(r)
		again.Nonce = c.Nonce
		w.expect(again, auth.ReplayedNonce)
		w.Advance(4 * time.Second)
		again = w.claim(r)
		again.Nonce = c.Nonce
		w.expect(again, auth.Accepted)
	})
}

// replayWithoutTime tests the part of a nonce's life that needs no change of the
// clock.
func (w *world) replayWithoutTime() {
	for _, offset := range []int64{-300, -299, 0, 299, 300} {
		c := w.claim(w.newKey())
		c.Timestamp += offset
		c.Now = c.Now.Truncate(time.Second)
		w.expect(c, auth.Accepted)
		w.expect(c, auth.ReplayedNonce)
	}
}

// testNonceClockJump lets the gateway's clock jump far ahead and back again. A
// request that was accepted before the jump must not be accepted again after it.
func testNonceClockJump(t *testing.T, open Factory) {
	w := newWorld(t, open)
	if !w.ClaimClock {
		t.Skip("this backend does not drop nonces by the clock of the claims")
	}
	r := w.newKey()
	var accepted []struct {
		ts    int64
		nonce [16]byte
	}
	at := w.Now()
	claimAt := func(now time.Time, ts int64, n [16]byte) auth.Reason {
		c := w.claim(r)
		c.Now, c.Timestamp, c.Nonce = now, ts, n
		v, err := w.Backend.Settle(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return v.Reason
	}
	for i := range 2000 {
		n, ts := nonce(), at.Unix()+int64(i%600)-299
		if got := claimAt(at, ts, n); got != auth.Accepted {
			t.Fatalf("before the jump: %v", got)
		}
		accepted = append(accepted, struct {
			ts    int64
			nonce [16]byte
		}{ts, n})
	}
	for _, jump := range []time.Duration{400 * time.Second, time.Hour, 24 * 365 * time.Hour} {
		ahead := at.Add(jump)
		for range 2000 { // enough to make a backend drop dead nonces
			if got := claimAt(ahead, ahead.Unix(), nonce()); got != auth.Accepted {
				t.Fatalf("after a jump of %v: %v", jump, got)
			}
		}
		for _, a := range accepted {
			if got := claimAt(at, a.ts, a.nonce); got == auth.Accepted {
				t.Fatalf("a request was accepted twice after the clock jumped %v ahead and back", jump)
			}
		}
	}
}
