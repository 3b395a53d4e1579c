package forward

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A Forwarder sends requests to issuers. It is safe for concurrent use.
type Forwarder struct {
	options Options
	issuers []*issuer
	turn    atomic.Uint64
	random  func(n int) int

	cancel context.CancelFunc
	done   chan struct{} // closed when the maintenance has ended
	checks time.Time     // the next are due then
	kept   time.Time     // maintain was called last; zero: never
}

// New returns a forwarder. Without requests it makes no connections, except for
// active checks. The caller calls Close when no more requests begin.
func New(options Options) (*Forwarder, error) {
	f, err := newForwarder(options)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() {
		defer close(f.done)
		defer ticker.Stop()
		f.run(ctx, ticker.C)
	}()
	return f, nil
}

// newForwarder returns a forwarder without its maintenance.
func newForwarder(options Options) (*Forwarder, error) {
	f := &Forwarder{
		options: options.withDefaults(),
		random:  rand.IntN,
		done:    make(chan struct{}),
	}
	if err := f.options.validate(); err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	for i := range f.options.Issuers {
		is, err := newIssuer(&f.options.Issuers[i], &f.options)
		if err != nil {
			return nil, fmt.Errorf("forward: %w", err)
		}
		f.issuers = append(f.issuers, is)
	}
	return f, nil
}

// Close ends the active checks and closes the idle connections. It does not stop
// requests in flight; their connections are closed after them. Later requests
// still work, each on a new connection.
func (f *Forwarder) Close() {
	f.cancel()
	<-f.done
	for _, is := range f.issuers {
		is.shut()
	}
}

// ClientCertificate returns the certificate that a new connection would show to the
// issuers; nil if there is none.
func (f *Forwarder) ClientCertificate() *x509.Certificate {
	secure := f.issuers[0].secure
	if secure == nil || secure.GetClientCertificate == nil {
		return nil
	}
	pair, err := secure.GetClientCertificate(nil)
	if err != nil {
		return nil
	}
	return pair.Leaf
}

// Do sends the request to one issuer and returns the answer when its head has
// arrived. The error is always an *Error.
//
// When Do has returned, the request and its body are no longer read. The
// caller reads the answer to its end or closes it. If the context ends before
// that, the connection is closed, and the issuer notices.
func (f *Forwarder) Do(ctx context.Context, r *Request) (*Answer, error) {
	x := newExchange(ctx, r, &f.options)
	defer x.free()
	if err := x.prepare(); err != nil {
		return nil, err
	}
	var last *Error
	for tried := uint64(0); ; {
		is, at := f.choose(tried)
		if is == nil {
			return nil, f.allOut(last)
		}
		asked := time.Now()
		answer, err := x.on(is)
		is.count(answer, err, time.Since(asked))
		if err == nil {
			return answer, nil
		}
		if last = err; err.Forwarded || err.Kind != KindDial && err.Kind != KindTLS {
			return nil, err
		}
		tried |= 1 << at
	}
}

// run calls maintain at each tick, until the context ends.
func (f *Forwarder) run(ctx context.Context, ticks <-chan time.Time) {
	for {
		f.maintain(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}

// maintain closes connections that have been idle for too long and makes the
// active checks that are due.
func (f *Forwarder) maintain(ctx context.Context) {
	now := f.options.Now()
	for _, is := range f.issuers {
		is.sweep(now)
		is.countOut(now.Sub(f.kept))
	}
	f.kept = now
	if f.options.Check == nil || now.Before(f.checks) {
		return
	}
	var all sync.WaitGroup
	for _, is := range f.issuers {
		all.Go(func() { f.check(ctx, is) })
	}
	all.Wait()
	f.checks = now.Add(f.options.Check.Every)
}

// choose returns the issuer for a request among those that are not in the set
// tried, and its index. If all of them are out, it returns one that may be tried
// although it is out, or nil.
func (f *Forwarder) choose(tried uint64) (is *issuer, at int) {
	now := f.options.Now()
	free, resort := f.free(tried, now)
	for free != 0 {
		at = f.pick(free)
		if f.issuers[at].health.claim(now) {
			return f.issuers[at], at
		}
		free &^= 1 << at
	}
	if resort == 0 {
		return nil, 0
	}
	at = f.pick(resort)
	return f.issuers[at], at
}

// free returns the set of issuers that may get a request, and the set of those
// that are out but may be tried if no other is left.
func (f *Forwarder) free(tried uint64, now time.Time) (free, resort uint64) {
	for i, is := range f.issuers {
		bit := uint64(1) << i
		switch {
		case tried&bit != 0:
		case !is.health.out(now):
			free |= bit
		case is.health.resort():
			resort |= bit
		}
	}
	return free, resort
}

// allOut returns the error for a request that no issuer can take. last is the
// error of the last attempt, or nil.
func (f *Forwarder) allOut(last *Error) *Error {
	now := f.options.Now()
	e := &Error{Kind: KindAllOut, Text: "every issuer is out"}
	for _, is := range f.issuers {
		wait := is.health.wait(now)
		switch {
		case is.health.down.Load() && f.options.Check != nil:
			wait = f.options.Check.Every
		case wait <= 0 && last != nil:
			return last // this one is not out; it has only failed now
		}
		if wait = max(wait, time.Second); e.RetryAfter == 0 || wait < e.RetryAfter {
			e.RetryAfter = wait
		}
	}
	if last != nil {
		e.Text += ": " + last.Text
	}
	return e
}

// pick chooses from a set that is not empty, by the policy.
func (f *Forwarder) pick(free uint64) int {
	n := bits.OnesCount64(free)
	switch {
	case n == 1 || f.options.Policy == First:
		return bits.TrailingZeros64(free)
	case f.options.Policy == RoundRobin:
		return nth(free, int(f.turn.Add(1)%uint64(n)))
	}
	first := f.random(n)
	second := f.random(n - 1)
	if second >= first {
		second++
	}
	a, b := nth(free, first), nth(free, second)
	if f.issuers[b].outstanding.Load() < f.issuers[a].outstanding.Load() {
		return b
	}
	return a
}

// nth returns the index of the nth element of a set, counted from 0.
func nth(set uint64, n int) int {
	for range n {
		set &= set - 1
	}
	return bits.TrailingZeros64(set)
}

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

// lost reports whether the issuer was taken out, and has not answered since.
func (h *health) lost() bool {
	if h.down.Load() {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.until.IsZero()
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
