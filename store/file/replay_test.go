package file

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// journalBytes returns a segment with some of every kind of entry, and where
// each entry in it ends.
func journalBytes(t testing.TB) (b []byte, ends []int) {
	t.Helper()
	limit := ratelimit.NewCharge("issue_card", ratelimit.Limit{Count: 5, Period: time.Hour, Burst: 5}, 1)
	bn := newBench(t, Options{})
	for range 3 {
		c := bn.claim()
		c.Charges = []ratelimit.Charge{limit}
		bn.expect(c, auth.Accepted)
		bn.fail(2)
	}
	c := bn.claim()
	c.LockAfter, c.LockDuration = 2, time.Hour
	bn.expect(c, auth.KeyLocked)
	if err := bn.state.Load().drop(nil, bn.clock.now().Unix()); err != nil {
		t.Fatal(err)
	}
	b = readFile(t, segments(t, copyDir(t, bn.dir))[0])
	written := len(bytes.TrimRight(b, "\x00"))
	for at := segmentHead; at < written; {
		n, ok := entryLength(b[at:])
		if !ok {
			t.Fatalf("no entry at byte %d", at)
		}
		at += n
		ends = append(ends, at)
	}
	b = b[:written+256]
	h, _ := readSegmentHeader(b)
	h.size = uint32(len(b)) // as if it had been made with this size
	h.put(b)
	return b, ends
}

// replayBytes reads a journal of one segment and returns how many entries were
// read.
func replayBytes(t testing.TB, dir string, b []byte) (r *replayed, entries int, err error) {
	t.Helper()
	writeFile(t, filepath.Join(dir, segmentName(1)), b)
	st := newState(Options{}.withDefaults(), "")
	r, err = st.replay(dir, newTestClock().now().Unix())
	if err != nil {
		return nil, 0, err
	}
	return r, int(r.seq) - 1, nil
}

// TestTornTail cuts a segment at every byte. All entries before the cut are
// read. A killed process leaves zeros at the end, so these are no damage. A
// file that is shorter than it was made is damaged.
func TestTornTail(t *testing.T) {
	full, ends := journalBytes(t)
	dir := t.TempDir()
	for cut := segmentHead; cut <= ends[len(ends)-1]; cut++ {
		want := 0
		for _, end := range ends {
			if end <= cut {
				want++
			}
		}
		zeroed := append(bytes.Clone(full[:cut]), make([]byte, len(full)-cut)...)
		for i, b := range [][]byte{zeroed, full[:cut]} {
			r, got, err := replayBytes(t, dir, b)
			if err != nil || len(r.damage) != i || got != want {
				t.Fatalf("cut at byte %d: %d entries, damage %v, error %v; want %d entries and %d places", cut, got, r.damage, err, want, i)
			}
		}
	}
}

// TestNeverBegun: a process that ends while it makes a segment leaves nothing
// that is taken for damage.
func TestNeverBegun(t *testing.T) {
	full, _ := journalBytes(t)
	dir := t.TempDir()
	for cut := 8; cut <= segmentHead; cut++ {
		b := make([]byte, len(full))
		copy(b[8:cut], full[8:cut]) // all but the magic, which comes last
		if r, _, err := replayBytes(t, dir, b); err != nil || len(r.damage)+len(r.segments) > 0 {
			t.Fatalf("cut at byte %d: %+v, %v", cut, r, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Fatalf("left behind: %v, %v", left, err)
		}
	}
}

// TestDamageIsNoticed flips a bit of every byte that was written.
func TestDamageIsNoticed(t *testing.T) {
	full, ends := journalBytes(t)
	dir := t.TempDir()
	for at := range ends[len(ends)-1] {
		b := bytes.Clone(full)
		b[at] ^= 0x10
		r, got, err := replayBytes(t, dir, b)
		if err == nil && len(r.damage) == 0 {
			t.Fatalf("damage at byte %d was not noticed", at)
		}
		if err != nil {
			t.Fatalf("damage at byte %d: %v", at, err)
		}
		if got < len(ends)-1 {
			t.Fatalf("damage at byte %d: %d of %d entries were read, want all but one", at, got, len(ends))
		}
	}
}

// FuzzJournal: for any content of a segment, reading it does not panic, and
// missing entries are reported as damage or as an error.
func FuzzJournal(f *testing.F) {
	full, ends := journalBytes(f)
	f.Add(full, 0, byte(0))
	f.Add(full, ends[2]+20, byte(7))
	f.Add(full[:ends[1]-3], 3, byte(255))
	f.Add([]byte(segmentMagic), 0, byte(1))
	f.Add([]byte{}, 0, byte(0))
	last := ends[len(ends)-1]
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, at int, flip byte) {
		if len(b) > 1<<16 {
			return
		}
		if at >= 0 && at < len(b) {
			b = bytes.Clone(b)
			b[at] ^= flip
		}
		r, entries, err := replayBytes(t, dir, b)
		if err == nil && len(r.damage) == 0 && entries < len(ends) && len(b) == len(full) && bytes.Equal(b[last-8:], full[last-8:]) {
			t.Fatalf("%d of %d entries are there, and nothing says so", entries, len(ends))
		}
	})
}
