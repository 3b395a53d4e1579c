package redis

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// Gateways with different windows may share a key: while a roll-out of a new
// window goes from node to node, or by mistake. A nonce must outlive the widest
// window in which its request could arrive again. So settle.lua notes at each
// key the widest window in use, and answers a claim whose nonce would live
// for less with that window. Requests whose nonces were recorded before the
// window became wider are refused where those nonces may be dead already,
// which is where the narrower window ends.

// windows is the widest window that other gateways use, as far as this one was
// told by settle.lua.
type windows struct{ wider atomic.Pointer[widerWindow] }

type widerWindow struct {
	window time.Duration
	until  time.Time // when it is asked for anew
}

// atLeast returns the window that the nonce of the claim must live for.
func (w *windows) atLeast(c *store.Claim) time.Duration {
	if other := w.wider.Load(); other != nil && other.window > c.Window && c.Now.Before(other.until) {
		return other.window
	}
	return c.Window
}

// learn takes over the window that settle.lua answered with, in milliseconds.
// It must be wider than the one tried.
func (w *windows) learn(c *store.Claim, tried time.Duration, n numbers) error {
	window := time.Duration(n.next()) * time.Millisecond
	if n.err != nil {
		return n.err
	}
	if window <= tried || window > MaxWindow {
		return fmt.Errorf("%w: redis asks for a window of %v beside one of %v", store.ErrUnavailable, window, tried)
	}
	if w.atLeast(c) < window { // else another key has asked for more meanwhile
		w.wider.Store(&widerWindow{window: window, until: c.Now.Add(windowLinger)})
	}
	return nil
}
