package file

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// A killedJournal is the directory that a killed process left, and an older
// state of the same directory.
type killedJournal struct {
	opt      Options
	clock    *testClock
	old, now string // directories
	mark     []byte
	accepted []*store.Claim
}

func newKilledJournal(t *testing.T) *killedJournal {
	b := newBench(t, Options{})
	k := &killedJournal{opt: b.opt, clock: b.clock}
	for i := range 4 { // segments
		for range 60 {
			c := b.claim()
			b.expect(c, auth.Accepted)
			k.accepted = append(k.accepted, c)
			if i == 3 && len(k.accepted) == 200 {
				k.old = copyDir(t, b.dir)
			}
		}
		b.keep()
		if i < 3 {
			b.clock.advance(61 * time.Second)
		}
	}
	k.now = copyStore(t, b.opt.RuntimeDir, b.dir)
	k.mark = readFile(t, markPath(b.opt.RuntimeDir, k.now))
	return k
}

// journal returns the paths of the segments with entries, oldest first.
func (k *killedJournal) journal(t *testing.T, dir string) (paths []string) {
	for _, path := range segments(t, dir) {
		if b := readFile(t, path); !bytes.Equal(b[:8], make([]byte, 8)) {
			paths = append(paths, path)
		}
	}
	return paths
}

// corruptions are ways to lose a part of a journal. Each is done to a copy.
var corruptions = map[string]func(t *testing.T, k *killedJournal, dir string, r *rand.Rand){
	"bit": func(t *testing.T, k *killedJournal, dir string, r *rand.Rand) {
		k.edit(t, dir, r, func(b []byte, written int) []byte {
			b[r.IntN(written)] ^= 1 << r.IntN(8)
			return b
		})
	},
	"bit of the header": func(t *testing.T, k *killedJournal, dir string, r *rand.Rand) {
		k.edit(t, dir, r, func(b []byte, _ int) []byte {
			b[r.IntN(segmentHead)] ^= 1 << r.IntN(8)
			return b
		})
	},
	"version": func(t *testing.T, k *killedJournal, dir string, r *rand.Rand) {
		k.edit(t, dir, r, func(b []byte, _ int) []byte {
			b[7] ^= 1 << r.IntN(8)
			return b
		})
	},
	"page": func(t *testing.T, k *killedJournal, dir string, r *rand.Rand) {
		k.edit(t, dir, r, func(b []byte, written int) []byte {
			at := r.IntN(written) &^ 4095
			clear(b[at:min(at+4096, len(b))])
			return b
		})
	},
	"zeros to the end": func(t *testing.T, k *killedJournal, dir string, r *rand.Rand) {
		k.edit(t, dir, r, func(b []byte, written int) []byte {
			clear(b[r.IntN(written):])
			return b
		})
	},
	"cut": func(t *testing.T, k *killedJournal, dir string, r *rand.Rand) {
		k.edit(t, dir, r, func(b []byte, written int) []byte { return b[:r.IntN(written)] })
	},
	"deleted": func(t *testing.T, k *killedJournal, dir string, r *rand.Rand) {
		paths := k.journal(t, dir)
		remove(t, paths[r.IntN(len(paths))])
	},
	"newest deleted": func(t *testing.T, k *killedJournal, dir string, _ *rand.Rand) {
		paths := k.journal(t, dir)
		remove(t, paths[len(paths)-1])
	},
	"older copy": func(t *testing.T, k *killedJournal, dir string, _ *rand.Rand) {
		paths := k.journal(t, dir)
		newest := paths[len(paths)-1]
		writeFile(t, newest, readFile(t, filepath.Join(k.old, journalDir, filepath.Base(newest))))
	},
	"older directory": func(t *testing.T, k *killedJournal, dir string, _ *rand.Rand) {
		remove(t, dir)
		if err := copyFiles(k.old, dir, storeFiles(t, k.old)); err != nil {
			t.Fatal(err)
		}
	},
	"copy of another": func(t *testing.T, k *killedJournal, dir string, r *rand.Rand) {
		paths := k.journal(t, dir)
		i := r.IntN(len(paths))
		writeFile(t, paths[i], readFile(t, paths[(i+1+r.IntN(len(paths)-1))%len(paths)]))
	},
	"a directory": func(t *testing.T, k *killedJournal, dir string, r *rand.Rand) {
		paths := k.journal(t, dir)
		path := paths[r.IntN(len(paths))]
		remove(t, path)
		if err := os.MkdirAll(filepath.Join(path, "inside"), 0o700); err != nil {
			t.Fatal(err)
		}
	},
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// edit changes one of the segments, the newest every other time.
func (k *killedJournal) edit(t *testing.T, dir string, r *rand.Rand, change func(b []byte, written int) []byte) {
	paths := k.journal(t, dir)
	path := paths[len(paths)-1]
	if r.IntN(2) == 0 {
		path = paths[r.IntN(len(paths))]
	}
	b := readFile(t, path)
	written := len(b)
	for written > 1 && b[written-1] == 0 {
		written--
	}
	writeFile(t, path, change(b, written))
}

// TestCorruptedJournal damages a killed journal 204 times. The store starts, no
// request is accepted a second time, and every loss is reported to the
// operator.
func TestCorruptedJournal(t *testing.T) {
	k := newKilledJournal(t)
	for name, corrupt := range corruptions {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(17) {
				dir := filepath.Join(t.TempDir(), "store")
				if err := copyFiles(k.now, dir, storeFiles(t, k.now)); err != nil {
					t.Fatal(err)
				}
				writeFile(t, markPath(k.opt.RuntimeDir, dir), k.mark)
				corrupt(t, k, dir, rand.New(rand.NewPCG(seed, 1)))
				k.check(t, dir, seed)
			}
		})
	}
}

func (k *killedJournal) check(t *testing.T, dir string, seed uint64) {
	t.Helper()
	opt, told := k.opt, &problems{}
	opt.OnProblem = told.add
	s := start(t, dir, opt)
	defer s.Close()
	lost := 0
	for _, accepted := range k.accepted {
		c := *accepted
		c.Now = k.clock.now()
		v, err := s.Settle(t.Context(), &c)
		if err != nil || v.Reason != auth.ReplayedNonce && v.Reason != auth.ReplayFloor {
			t.Fatalf("seed %d: %v, %v: a request that was accepted before; told %q", seed, v.Reason, err, told.text())
		}
		if v.Reason == auth.ReplayFloor {
			lost++
		}
	}
	if lost > 0 && !strings.Contains(told.text(), "nonces may be lost") {
		t.Fatalf("seed %d: %d nonces are lost and nobody is told: %q", seed, lost, told.text())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	told = &problems{}
	opt.OnProblem = told.add
	if err := start(t, dir, opt).Close(); err != nil || told.text() != "" {
		t.Fatalf("seed %d: the start after it: %v, told %q", seed, err, told.text())
	}
}
