package forward

import (
	"context"
	"io"
	"net/http"
	"strconv"
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

// maxCheckBody is the most bytes that are read of the answer to a check.
const maxCheckBody = 64 << 10

// check makes an active check of an issuer, over the connections that requests
// use. By the result it takes the issuer out or back.
func (f *Forwarder) check(ctx context.Context, is *issuer) {
	bounded, cancel := context.WithTimeout(ctx, f.options.Check.Timeout)
	defer cancel()
	x := newExchange(bounded, &Request{Method: http.MethodGet, Target: f.options.Check.Path}, &f.options)
	defer x.free()
	answer, err := x.on(is)
	switch {
	case ctx.Err() != nil, err != nil && err.Kind == KindBusy:
		// Nothing is known.
	case err != nil:
		is.checked(err.Text)
	case !f.options.Check.accepts(answer.Status):
		is.checked("the active check was answered with status " + strconv.Itoa(answer.Status))
	default:
		is.checked("")
	}
	if answer != nil {
		_, _ = io.CopyN(io.Discard, answer, maxCheckBody)
		_ = answer.Close()
	}
}

func (c *Check) accepts(status int) bool {
	return status == c.Status || c.Status == 0 && status >= 200 && status < 300
}

// checked takes the result of an active check: the fault of the issuer, or "".
func (is *issuer) checked(fault string) {
	if was := is.health.down.Swap(fault != ""); !was && fault != "" {
		is.report(KindCheck, "out by an active check: "+fault)
	}
}
