package journal

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// A process can be killed between any two instructions, so that a position must be
// stored at once. The compiler joins stores of bytes, but not for the race detector.
func TestPositionIsStoredAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mark")
	m, err := newMark([]string{path}, marked{})
	if err != nil {
		t.Fatal(err)
	}
	var writer sync.WaitGroup
	defer writer.Wait()
	var done atomic.Bool
	defer done.Store(true)
	writer.Go(func() {
		defer func() { _ = m.close() }()
		for n := uint32(0); !done.Load(); n += 0x01010101 {
			m.set(positionAt(uint64(n), n))
		}
	})
	for range 20_000 {
		is, found, err := readMark(path)
		if err != nil || !found {
			t.Fatalf("%v, %v", found, err)
		}
		if is.position.entry()+1 != is.position.sum() {
			t.Fatalf("half of a position: %x", uint64(is.position))
		}
	}
}
