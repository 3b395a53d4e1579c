package file

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// TestReplayFloor: if nonces may have been lost, requests stamped up to that
// moment, or a little ahead of it, are refused. These refusals do not count as
// failures. A request whose nonce is still known is refused as a repetition.
// The next start raises no floor.
func TestReplayFloor(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(t *testing.T, b *bench, dir string)
		told string
		kept auth.Reason // the answer to a request from before
	}{
		{"damaged", func(t *testing.T, _ *bench, dir string) {
			path := segments(t, dir)[0]
			b := readFile(t, path)
			b[segmentHead+entryHead+3] ^= 1
			writeFile(t, path, b)
		}, "the journal is damaged", auth.ReplayedNonce},
		{"a segment is missing", func(t *testing.T, _ *bench, dir string) {
			if err := os.Remove(segments(t, dir)[1]); err != nil {
				t.Fatal(err)
			}
		}, "entries before it are missing", auth.ReplayedNonce},
		{"no journal", func(t *testing.T, _ *bench, dir string) {
			for _, path := range segments(t, dir) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
		}, "there are keys, but no journal", auth.ReplayFloor},
		{"another boot", func(_ *testing.T, b *bench, _ string) { b.opt.boot = "two" }, "the machine was started anew", auth.ReplayedNonce},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Options{})
			for range 3 { // three segments
				b.expect(b.claim(), auth.Accepted)
				b.keep()
				b.clock.advance(61 * time.Second)
			}
			kept := b.claim()
			b.expect(kept, auth.Accepted)
			b.clock.advance(time.Second)
			b.crash(func(dir string) { tt.edit(t, b, dir) })
			if !strings.Contains(b.problems.text(), tt.told) {
				t.Fatalf("told %q, want %q", b.problems.text(), tt.told)
			}
			b.checkFloor(kept, tt.kept)

			floor := b.state.Load().floor.Load()
			b.crash(nil)
			if told := b.problems.text(); told != "" || b.state.Load().floor.Load() != floor {
				t.Fatalf("the next start told %q, floor %d, want nothing and %d", told, b.state.Load().floor.Load(), floor)
			}
			b.checkFloor(kept, tt.kept)
			if b.Status(t.Context()).Details.ReplayFloor.IsZero() {
				t.Error("the status does not tell the floor")
			}
		})
	}
}

// checkFloor checks that the floor is at now, and the reason for a request from
// before.
func (b *bench) checkFloor(kept *store.Claim, want auth.Reason) {
	b.t.Helper()
	b.expect(kept, want)
	for _, ahead := range []int64{-300, 0, 5} {
		c := b.claim()
		c.Timestamp += ahead
		c.LockCounts = auth.RuleTimestamp | auth.RuleNonce
		if v := b.expect(c, auth.ReplayFloor); v.Failures != 0 || v.RetryAfter < time.Second {
			b.t.Fatalf("%+v: a refusal by the floor was counted, or says not when to come again", v)
		}
	}
	c := b.claim()
	c.Timestamp += 6
	b.expect(c, auth.Accepted)
	c = b.claim()
	c.ReplayFloorAhead = -time.Second
	b.expect(c, auth.Accepted)
}

// TestNoFloor: neither a new directory nor a usual start raises a floor.
func TestNoFloor(t *testing.T) {
	b := newBench(t, Options{})
	b.expect(b.claim(), auth.Accepted)
	b.crash(nil)
	b.expect(b.claim(), auth.Accepted)
	if told := b.problems.text(); told != "" {
		t.Fatalf("told %q", told)
	}
}

// TestForgottenStaysForgotten: a request whose nonce and segment were removed
// long ago is not accepted when the clock is set back, even after a new start.
func TestForgottenStaysForgotten(t *testing.T) {
	b := newBench(t, Options{noKeeper: true}) // what is removed, and when, is the test's to say
	at := b.clock.now()
	old := b.claim()
	old.Timestamp += 299
	b.expect(old, auth.Accepted)
	again := *old
	for _, moment := range []string{"at once", "after a start", "after another one"} {
		b.keep() // makes the segment for what follows
		b.clock.advance(time.Hour)
		b.expect(b.claim(), auth.Accepted)
		b.keep()
		b.clock.nanos.Store(at.UnixNano())
		if v := b.settle(&again); v.Reason != auth.ReplayFloor {
			t.Fatalf("%s: %v, want the replay floor", moment, v.Reason)
		}
		b.crash(nil)
		if v := b.settle(&again); v.Reason != auth.ReplayFloor {
			t.Fatalf("after a start, %s: %v, want the replay floor", moment, v.Reason)
		}
	}
}

// TestWiderWindow: after the window was made wider, no request is accepted a
// second time.
func TestWiderWindow(t *testing.T) {
	b := newBench(t, Options{})
	c := b.claim()
	b.expect(c, auth.Accepted)
	b.clock.advance(320 * time.Second)
	again := b.claim()
	again.Nonce, again.Timestamp, again.Window = c.Nonce, c.Timestamp, 10*time.Minute
	b.expect(again, auth.ReplayFloor)
}

// TestClockWentBack: nonces that were accepted while the clock was far ahead are
// kept, and do not stop the removal of old segments.
func TestClockWentBack(t *testing.T) {
	b := newBench(t, Options{})
	at := b.clock.now()
	b.clock.advance(24 * 365 * time.Hour)
	ahead := b.claim()
	b.expect(ahead, auth.Accepted)
	b.clock.nanos.Store(at.UnixNano())
	most := 0
	for range 120 {
		b.expect(b.claim(), auth.Accepted)
		b.keep()
		b.clock.advance(time.Minute)
		most = max(most, len(segments(t, b.dir)))
	}
	if most > 30 {
		t.Errorf("%d segments, want about what the life of nonces asks for", most)
	}
	b.crash(nil)
	b.clock.advance(24*365*time.Hour - 2*time.Hour)
	b.expect(ahead, auth.ReplayedNonce)
}
