package file

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// cutSpare truncates the segment that was made in advance, so that access to it
// fails as on a broken disk.
func (b *bench) cutSpare() {
	b.t.Helper()
	b.keep()
	paths := segments(b.t, b.dir)
	newest := paths[len(paths)-1]
	if !bytes.Equal(readFile(b.t, newest)[:8], make([]byte, 8)) {
		b.t.Fatal("no segment was made in advance")
	}
	if err := os.Truncate(newest, 0); err != nil {
		b.t.Fatal(err)
	}
}

// TestSpareCannotBeBegun: a fault in the header of a new segment makes at most
// a few requests fail. The process goes on, and no accepted request is
// forgotten.
func TestSpareCannotBeBegun(t *testing.T) {
	for _, tt := range []struct {
		name string
		full bool // otherwise the next segment is due by its age
	}{{"due", false}, {"full", true}} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Options{retryAfter: 1})
			first := b.claim()
			b.expect(first, auth.Accepted)
			b.cutSpare()
			if tt.full {
				_, err := b.fillUp()
				if err == nil {
					t.Fatal("accepted without a journal")
				}
				if n := strings.Count(err.Error(), store.ErrUnavailable.Error()); n != 1 {
					t.Errorf("%q says %d times that the store cannot answer", err, n)
				}
			} else {
				b.clock.advance(61 * time.Second)
			}
			next := b.claim()
			b.expect(next, auth.Accepted)
			if told := b.problems.text(); !strings.Contains(told, "the disk failed") {
				t.Errorf("told %q, want that the disk failed", told)
			}
			b.crash(nil)
			b.expect(first, auth.ReplayedNonce)
			b.expect(next, auth.ReplayedNonce)
			if told := b.problems.text(); told != "" {
				t.Errorf("told %q after the process was killed", told)
			}
		})
	}
}

// TestRemovedSegmentIsNoObstacle: if somebody has removed a journal file, the
// later ones are still removed when they are dead.
func TestRemovedSegmentIsNoObstacle(t *testing.T) {
	b := newBench(t, Options{})
	for range 3 {
		b.expect(b.claim(), auth.Accepted)
		b.clock.advance(61 * time.Second)
		b.keep()
	}
	if err := os.Remove(segments(t, b.dir)[0]); err != nil {
		t.Fatal(err)
	}
	b.clock.advance(20 * time.Minute)
	b.expect(b.claim(), auth.Accepted)
	b.keep()
	if n, _ := b.state.Load().journal.Extent(); n > 2 {
		t.Errorf("%d segments are kept, want the newest; told %q", n, b.problems.text())
	}
}

// TestNotReadyBehindItsTime: if the clock was far ahead for longer than nonces
// live, the store refuses everything afterwards. It reports that, and what to
// do.
func TestNotReadyBehindItsTime(t *testing.T) {
	b := newBench(t, Options{})
	at := b.clock.now()
	b.clock.advance(24 * time.Hour)
	b.expect(b.claim(), auth.Accepted)
	b.clock.advance(time.Hour)
	b.keep()
	if err := b.Ready(t.Context()); err != nil {
		t.Fatalf("not ready although the clock only went on: %v", err)
	}
	b.clock.nanos.Store(at.UnixNano())
	b.expect(b.claim(), auth.ReplayFloor)
	if status := b.Status(t.Context()); status.Ready || !strings.Contains(status.Problem, "the clock was ahead") {
		t.Errorf("%+v: want that the clock was ahead", status)
	}
	b.crash(func(dir string) { // as the text of the problem advises
		if err := os.RemoveAll(filepath.Join(dir, journalDir)); err != nil {
			t.Fatal(err)
		}
	})
	if err := b.Ready(t.Context()); err != nil {
		t.Errorf("not ready without the journal: %v", err)
	}
	b.clock.advance(6 * time.Second)
	b.expect(b.claim(), auth.Accepted)
}
