package auditfile

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// trail returns the numbers of the lines of a key, and where the search ended.
func (b *bench) trail(key string, n int) (numbers []uint64, from uint64) {
	b.t.Helper()
	t, err := b.Trail(key, n)
	if err != nil || t.Path != b.path || t.Lines == nil {
		b.t.Fatalf("%+v, %v", t, err)
	}
	for _, line := range t.Lines {
		var e struct {
			Seq   uint64 `json:"seq"`
			KeyID string `json:"key_id"`
		}
		if err := json.Unmarshal(line, &e); err != nil || e.KeyID != key {
			b.t.Errorf("%s: %v", line, err)
		}
		numbers = append(numbers, e.Seq)
	}
	return numbers, t.From
}

func (b *bench) change(key, more string) {
	b.t.Helper()
	b.Append(fmt.Appendf(nil, `{"action":"disable","key_id":%q,"claimed":%q}`, key, more))
	if err := b.Ready(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// The trail of a key has its newest lines first, and says where the search ended: where
// there are enough, at the begin of the file, or where too much was read.
func TestTrail(t *testing.T) {
	b := newBench(t)
	want := func(what, key string, n int, wantFrom uint64, want ...uint64) {
		t.Helper()
		if got, from := b.trail(key, n); fmt.Sprint(got) != fmt.Sprint(want) || from != wantFrom {
			t.Errorf("%s: %d from %d, want %d from %d", what, got, from, want, wantFrom)
		}
	}
	want("no file", "a", 20, 0)
	for range 3 {
		b.change("a", "ck_b") // another key in another field
		b.change("b", "")
	}
	want("all", "a", 20, 1, 5, 3, 1)
	want("enough", "a", 2, 3, 5, 3)
	want("of nobody", "c", 20, 1)
	f, err := os.OpenFile(b.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteString(`{"seq":7,"prev":"cut off`); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	want("torn", "b", 1, 6, 6)
	b.change("a", "") // after a line that reports the cut
	want("mended", "a", 2, 5, 8, 5)
	for range 5 {
		b.change("c", strings.Repeat("x", maxLine-1000))
	}
	want("beyond what is searched", "a", 20, 10)
	if err := os.Rename(b.path, b.path+".1"); err != nil {
		t.Fatal(err)
	}
	b.change("a", "")
	want("after a rotation", "a", 20, 14, 14)
}
