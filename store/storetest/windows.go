package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// testWiderWindow checks that after the window was made wider, no request is
// accepted again at any second of the wider window, even if the key was changed or
// deleted meanwhile. Requests with a correct clock must always pass.
func testWiderWindow(t *testing.T, open Factory) {
	for _, tt := range []struct {
		name      string
		meanwhile func(t *testing.T, w *world, r *store.Record)
	}{
		{"same backend", func(*testing.T, *world, *store.Record) {}},
		{"opened anew", func(t *testing.T, w *world, _ *store.Record) { w.reopen(t, Closed) }},
		{"widened twice", func(_ *testing.T, w *world, r *store.Record) { w.accept(r, 2*time.Minute) }},
		{"deleted and imported", func(_ *testing.T, w *world, r *store.Record) {
			w.delete(r)
			r.Revision = random()
			w.put(r, store.PutOptions{})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, open)
			if w.Advance == nil {
				t.Skip("the clock of this backend cannot be moved")
			}
			const narrow, wide = time.Minute, 5 * time.Minute
			r := w.newKey()
			var accepted []*store.Claim
			for _, offset := range []int64{-60, -1, 0, 59, 60} {
				c := w.claim(r)
				c.Window, c.Timestamp = narrow, c.Timestamp+offset
				w.settled(c, auth.Accepted)
				accepted = append(accepted, c)
			}
			tt.meanwhile(t, w, r)
			for range 400 {
				for _, c := range accepted {
					if w.passes(w.repeat(c, wide)) {
						t.Fatalf("a request stamped %v was accepted again at %v, after the window was made wider", time.Unix(c.Timestamp, 0), w.Now())
					}
				}
				w.Advance(time.Second)
				w.accept(r, wide)
			}
		})
	}
}

// testNarrowerWindow checks a gateway with a narrow window beside one with a wide
// window, as in a roll-out or by mistake. The narrow one need not refuse anything:
// its nonces live for the wide window too. So it accepts every correct request, and
// the wide one accepts none of these again.
func testNarrowerWindow(t *testing.T, open Factory) {
	w := newWorld(t, open)
	if w.Advance == nil {
		t.Skip("the clock of this backend cannot be moved")
	}
	const narrow, wide = time.Minute, 5 * time.Minute
	r := w.newKey()
	w.accept(r, wide)
	var accepted []*store.Claim
	for range 400 {
		for _, c := range accepted {
			if w.passes(w.repeat(c, wide)) {
				t.Fatalf("a request stamped %v was accepted with the narrow window, and again at %v with the wide one", time.Unix(c.Timestamp, 0), w.Now())
			}
		}
		if len(accepted) < 40 {
			c := w.claim(r)
			c.Window = narrow
			c.Timestamp += int64(len(accepted)%3) * 30
			w.settled(c, auth.Accepted)
			accepted = append(accepted, c)
		}
		w.Advance(time.Second)
	}
}

// accept settles a new request with the window. It fails unless the request is
// accepted.
func (w *world) accept(r *store.Record, window time.Duration) {
	w.Helper()
	c := w.claim(r)
	c.Window = window
	w.settled(c, auth.Accepted)
}

// testAnyWindow checks gateways with different windows that share the state and
// start and end at random moments. No request may be accepted twice. A new one
// that is stamped inside every window in use must be accepted.
func testAnyWindow(t *testing.T, open Factory) {
	w := newWorld(t, open)
	if w.Advance == nil {
		t.Skip("the clock of this backend cannot be moved")
	}
	rapid.Check(t, func(rt *rapid.T) {
		h := &windows{world: &world{TB: rt, Setup: w.Setup, model: newModel()}, t: t}
		h.key = h.newKey()
		rt.Repeat(map[string]func(*rapid.T){
			"new":    h.settleNew,
			"new2":   h.settleNew, // so that new requests are as frequent as repetitions
			"repeat": h.repeatAny,
			"wait": func(rt *rapid.T) {
				w.Advance(time.Duration(rapid.Int64Range(1, 400_000).Draw(rt, "ms")) * time.Millisecond)
			},
			"reopen": func(rt *rapid.T) {
				if rapid.IntRange(0, 19).Draw(rt, "reopen") == 0 {
					w.reopen(t, rapid.SampledFrom([]Ending{Closed, Crashed}).Draw(rt, "how"))
				}
			},
			"delete": h.deleteAndRestore,
		})
	})
}

// windows is a history of one key under several windows.
type windows struct {
	*world
	t        *testing.T
	key      *store.Record
	accepted []*store.Claim
}

const narrowest = time.Minute

var windowsInUse = []time.Duration{narrowest, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

func (h *windows) settleNew(rt *rapid.T) {
	c := h.claim(h.key)
	c.Window = rapid.SampledFrom(windowsInUse).Draw(rt, "window")
	most := int64(c.Window / time.Second)
	c.Timestamp += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(-most-1, most+1)).Draw(rt, "offset")
	if h.passes(c) {
		h.accepted = append(h.accepted, c)
	} else if !outside(c.Now, c.Timestamp, narrowest) {
		rt.Fatalf("a new request stamped %v was refused at %v", time.Unix(c.Timestamp, 0), c.Now)
	}
}

func (h *windows) repeatAny(rt *rapid.T) {
	window := rapid.SampledFrom(windowsInUse).Draw(rt, "window")
	for i := max(0, len(h.accepted)-20); i < len(h.accepted); i++ {
		if c := h.accepted[i]; h.passes(h.repeat(c, window)) {
			rt.Fatalf("a request stamped %v was accepted at %v and again at %v", time.Unix(c.Timestamp, 0), c.Now, h.Now())
		}
	}
}

// deleteAndRestore deletes the key and imports it again.
func (h *windows) deleteAndRestore(rt *rapid.T) {
	if rapid.IntRange(0, 19).Draw(rt, "delete") > 0 {
		return
	}
	h.delete(h.key)
	w := h.key.Clone()
	w.Revision = random()
	h.key = w
	h.put(w, store.PutOptions{})
}

// repeat returns the claim of the same request when it arrives now at a gateway
// with the window.
func (w *world) repeat(c *store.Claim, window time.Duration) *store.Claim {
	again := *c
	again.Now, again.NextRevision, again.Window = w.Now(), random(), window
	if k := w.model.key(c.KeyID); k.record != nil {
		again.Revision = k.record.Revision
	}
	return &again
}

// passes settles without the model, which has only one window, and reports
// whether the request was accepted.
func (w *world) passes(c *store.Claim) bool {
	w.Helper()
	v, err := w.Backend.Settle(ctx, c)
	if err != nil || v.Stale {
		w.Fatalf("Settle: %+v, %v\nclaim: %+v", v, err, c)
	}
	return v.Reason == auth.Accepted
}

// settled is like passes. It fails unless the verdict has the reason.
func (w *world) settled(c *store.Claim, reason auth.Reason) {
	w.Helper()
	v, err := w.Backend.Settle(ctx, c)
	if err != nil || v.Stale || v.Reason != reason {
		w.Fatalf("%v (stale %v), %v, want %v\nclaim: %+v", v.Reason, v.Stale, err, reason, c)
	}
}
