package file

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/card-gateway/card-gateway/store"
)

// disk refuses new files by their suffix, as a full one does.
type disk struct{ full atomic.Pointer[[]string] }

func (d *disk) sync(f *os.File) error {
	if suffixes := d.full.Load(); suffixes != nil && slices.Contains(*suffixes, filepath.Ext(f.Name())) {
		return syscall.ENOSPC
	}
	return f.Sync()
}

func (d *disk) fill(suffixes ...string) { d.full.Store(&suffixes) }

// A key can be disabled on a full disk, as often as the room suffices that was
// reserved. Then the store says that changes of keys fail, until it has room again.
func TestChangesOnAFullDisk(t *testing.T) {
	d := new(disk)
	d.fill()
	b := newBench(t, Options{sync: d.sync})
	b.keep()
	disable := func() error {
		next := b.record.Clone()
		next.Revision, next.Disabled = rand.Text(), !next.Disabled
		_, err := b.Put(t.Context(), next, store.PutOptions{Expect: b.record.Revision})
		if err == nil {
			b.record = next
		}
		return err
	}
	degraded := func() bool {
		list := b.Status(t.Context()).Details.Degraded
		return slices.Contains(list, "keys")
	}

	d.fill(".json", ".new") // the old file leaves room for the next spare
	for range 3 {
		if err := disable(); err != nil || degraded() {
			t.Fatalf("with room in reserve: %v, degraded %v", err, degraded())
		}
	}
	d.fill(".json", ".new", ".other") // the next spare is there already
	if err := disable(); err != nil {
		t.Fatal(err)
	}
	b.state.Load().changes.Lock()
	b.state.Load().dropSpare()
	b.state.Load().changes.Unlock()
	d.fill(".json", ".new", ".spare")
	b.keep()
	if !degraded() || !strings.Contains(b.problems.text(), "no room on the disk for changes of keys") {
		t.Errorf("degraded %v, told %q", degraded(), b.problems.text())
	}
	if err := disable(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without room: %v", err)
	}
	d.fill()
	b.keep()
	if err := disable(); err != nil || degraded() {
		t.Errorf("with room again: %v, degraded %v", err, degraded())
	}
	want := b.record
	b.crash(nil)
	if got, err := b.Get(t.Context(), want.ID); err != nil || got.Revision != want.Revision || got.Disabled != want.Disabled {
		t.Errorf("after a crash the key is %+v, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, keyFileName+spareSuffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// The room that is reserved is enough for a key file of another process, and
// nobody can plant a file in its place.
func TestSpareIsTheStoresOwn(t *testing.T) {
	d := new(disk)
	d.fill()
	b := newBench(t, Options{sync: d.sync})
	b.crash(nil) // the buffer of the key file is empty
	b.keep()
	st := b.state.Load()
	if info, err := os.Stat(st.path); err != nil || int64(st.spare.size) < info.Size() {
		t.Errorf("%d bytes are reserved for %v, %v", st.spare.size, info, err)
	}
	path := st.path + spareSuffix
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("planted"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.fill(".json", ".new")
	next := b.record.Clone()
	next.Revision = rand.Text()
	if _, err := b.Put(t.Context(), next, store.PutOptions{Expect: b.record.Revision}); err == nil {
		t.Error("a planted file became the key file")
	}
	if text, err := os.ReadFile(st.path); err != nil || !strings.HasPrefix(string(text), keyFileStart) {
		t.Errorf("the key file is %.20q, %v", text, err)
	}
}
