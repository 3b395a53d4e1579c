package redis

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// Gateways with different windows may share a key: while a new window is rolled
// out from node to node, or by mistake. A nonce must outlive the widest window in
// which its request could arrive again. So settle.lua notes at each key the widest
// window in use. If the nonce of a claim would live for less, the script answers
// with that window, and the claim is tried again. Nonces that were recorded before
// the window became wider may have expired already. So requests older than the
// narrower window are refused.

// windows is the widest window of other gateways, as settle.lua has reported it.
type windows struct{ wider atomic.Pointer[widerWindow] }

type widerWindow struct {
	window time.Duration
	until  time.Time // after this the gateway's own window is tried again
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
