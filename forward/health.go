package forward

import (
	"sync"
	"sync/atomic"
	"time"
)

// pace is how fast an issuer fails.
type pace uint8

const (
	fast pace = iota
	slow      // only by a timeout
)

// health is whether an issuer may get requests. It takes the time as an
// argument.
type health struct {
	after int           // failures that take the issuer out; below 0: never
	span  time.Duration // in which they count, and for which it is out

	doubt atomic.Bool // a failure is counted or the issuer is out; otherwise no lock is needed
	mu    sync.Mutex
	fails int
	first time.Time // of the failures that count
	until time.Time // the issuer is out until then; zero: it is not
	pace  pace      // of the last failure
	trial bool      // one request tries an issuer whose time is over

	down atomic.Bool // by the active checks
}

// out reports whether no request should be sent now.
func (h *health) out(now time.Time) bool {
	if h.down.Load() {
		return true
	}
	if !h.doubt.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.until.IsZero() && (h.trial || now.Before(h.until))
}

// wait returns for how long the issuer is out after failures; 0 or less: it is
// not.
func (h *health) wait(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.IsZero() {
		return 0
	}
	return h.until.Sub(now)
}

// claim is called for the issuer that was chosen. It returns false if another
// request already tries whether the issuer works again.
func (h *health) claim(now time.Time) bool {
	if !h.doubt.Load() {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.IsZero() {
		return true
	}
	if h.trial || now.Before(h.until) {
		return false
	}
	h.trial = true
	return true
}

// answered resets the failures, because the issuer has answered a request.
func (h *health) answered() {
	if !h.doubt.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails, h.until, h.trial = 0, time.Time{}, false
	h.doubt.Store(false)
}

// unknown ends a request that shows nothing about the issuer.
func (h *health) unknown() {
	if !h.doubt.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trial = false
}

// resort reports whether a request that has no other issuer left should try
// this one although it is out. It should if that costs no time. Then an issuer
// that was restarted is found at once, and one client whose requests break
// connections cannot cut off all others.
func (h *health) resort() bool {
	if h.down.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pace == fast
}

// failed counts a failure. It reports whether this failure takes the issuer out.
func (h *health) failed(now time.Time, p pace) bool {
	if h.after < 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubt.Store(true)
	h.pace, h.trial = p, false
	if h.until.IsZero() && h.fails > 0 && now.Sub(h.first) > h.span {
		h.fails = 0
	}
	if h.fails == 0 {
		h.first = now
	}
	h.fails++
	if h.fails < h.after || now.Before(h.until) {
		return false
	}
	h.until = now.Add(h.span)
	return true
}
