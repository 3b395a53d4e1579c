package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/card-gateway/card-gateway/ratelimit"
)

// write continues the journal in the directory with entries, and returns it.
func write(t testing.TB, dir string, entries ...*Entry) *Journal {
	t.Helper()
	c, err := Read(dir, func(*Entry) {})
	if err != nil {
		t.Fatal(err)
	}
	j, err := c.Continue(Options{
		Problem: func(err error) { t.Error(err) },
		Horizon: func() Horizon { return Horizon{Forgotten: 1, Floor: 2} },
	}, 1_700_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// someEntries are entries of every kind that is written from outside.
func someEntries() (list []*Entry) {
	const now = 1_700_000_000
	bucket := Bucket{Name: "issue_card", Level: ratelimit.Level{Used: 720_000_000, At: now * 1e6, Unit: 720_000_000}, Drain: 1}
	for i := range byte(3) {
		list = append(list,
			&Entry{Kind: KindAccepted, Version: 1, Now: now, First: now, Second: now + 600, Nonce: [16]byte{i + 1}, Key: "ck_test_one", Buckets: []Bucket{bucket}},
			&Entry{Kind: KindCounted, Now: now, Key: "ck_test_one", Failures: 1},
			&Entry{Kind: KindCounted, Now: now, Key: "ck_test_one", Failures: 2})
	}
	return append(list,
		&Entry{Kind: KindLocked, Now: now, First: now * 1e9, Second: (now + 3600) * 1e9, Key: "ck_test_one", Failures: 2, Extra: "before\x00after"},
		&Entry{Kind: KindState, Now: now, Key: "ck_test_two", Failures: 3, Extra: "used", Buckets: []Bucket{bucket, bucket}, Ahead: 5},
		&Entry{Kind: KindNonce, Now: now, First: now - 1, Second: now + 599, Nonce: [16]byte{9}, Key: "ck_test_two"})
}

// TestReadReturnsWhatWasWritten: the entries come back as they were, in order, each
// segment's horizon before them.
func TestReadReturnsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	want := []*Entry{}
	for range 2 {
		if err := write(t, dir, someEntries()...).Close(); err != nil {
			t.Fatal(err)
		}
		want = append(append(want, &Entry{Kind: KindHorizon, Now: 1_700_000_000, First: 1, Second: 2}), someEntries()...)
	}
	for _, e := range want {
		for i := range e.Buckets {
			e.Buckets[i].Level.At += e.Ahead
		}
		e.Ahead = 0
	}
	var got []*Entry
	c, err := Read(dir, func(e *Entry) { got = append(got, e) })
	if err != nil || len(c.Damage) > 0 || len(c.Segments) != 2 || c.Seen != 1_700_000_000 {
		t.Fatalf("%+v, %v", c, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
}

// journalBytes returns a segment with some of every kind of entry, and where
// each entry in it ends.
func journalBytes(t testing.TB) (b []byte, ends []int) {
	t.Helper()
	dir := t.TempDir()
	j := write(t, dir, someEntries()...)
	defer j.Close()
	if err := j.Drop(nil, 1_700_000_000); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, segmentName(1)))
	if err != nil {
		t.Fatal(err)
	}
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
func replayBytes(t testing.TB, dir string, b []byte) (c *Contents, entries int, err error) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, segmentName(1)), b, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = Read(dir, func(*Entry) {})
	if err != nil {
		return nil, 0, err
	}
	return c, int(c.seq) - 1, nil
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
			if err != nil || len(r.Damage) != i || got != want {
				t.Fatalf("cut at byte %d: %d entries, damage %v, error %v; want %d entries and %d places", cut, got, r.Damage, err, want, i)
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
		if r, _, err := replayBytes(t, dir, b); err != nil || len(r.Damage)+len(r.Segments) > 0 {
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
		if err == nil && len(r.Damage) == 0 {
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
		if err == nil && len(r.Damage) == 0 && entries < len(ends) && len(b) == len(full) && bytes.Equal(b[last-8:], full[last-8:]) {
			t.Fatalf("%d of %d entries are there, and nothing says so", entries, len(ends))
		}
	})
}
