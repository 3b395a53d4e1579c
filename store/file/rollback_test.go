package file

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// A rollback is a store whose directory is put back from copies, and copied to other
// places, on the same boot of the machine.
type rollback struct {
	*bench
	random *rand.Rand
	copies []string         // of the directory, made at different moments
	places []string         // directories that were in use
	claims []*store.Claim   // that may be sent again
	taken  map[[16]byte]int // how often each nonce was accepted
	log    []string
}

func (r *rollback) did(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// send settles a claim, and notes whether it was accepted.
func (r *rollback) send(c *store.Claim) {
	r.t.Helper()
	again := *c
	again.Now = r.clock.now()
	v := r.settle(&again)
	if v.Reason != auth.Accepted {
		return
	}
	if r.taken[c.Nonce]++; r.taken[c.Nonce] > 1 {
		for _, line := range r.log {
			r.t.Log(line)
		}
		r.t.Fatalf("a request that was stamped %s ago was accepted a second time", r.clock.now().Sub(time.Unix(c.Timestamp, 0)))
	}
}

// use accepts some requests, or none.
func (r *rollback) use() {
	n := r.random.IntN(3)
	for range n {
		c := r.claim()
		r.claims = append(r.claims, c)
		r.send(c)
	}
	r.did("%d new requests", n)
}

// copy copies the directory while the store runs, as a snapshot does.
func (r *rollback) copy() {
	r.copies = append(r.copies, copyWhole(r.t, r.dir))
	r.did("copy %d of %s", len(r.copies)-1, filepath.Base(r.dir))
}

// goOn ends the store and starts one on a directory: the same, one that was in use,
// one with the content of a copy, or a copy at another place.
func (r *rollback) goOn() {
	r.t.Helper()
	dir := r.dir
	if err := r.Close(); err != nil {
		r.t.Fatal(err)
	}
	switch of := r.random.IntN(len(r.copies)); r.random.IntN(4) {
	case 0:
		r.did("start again")
	case 1:
		dir = r.places[r.random.IntN(len(r.places))]
		r.did("start in the directory that was in use before")
	case 2:
		if err := os.RemoveAll(dir); err != nil {
			r.t.Fatal(err)
		}
		if err := os.CopyFS(dir, os.DirFS(r.copies[of])); err != nil {
			r.t.Fatal(err)
		}
		protect(r.t, dir)
		r.did("put copy %d back", of)
	default:
		dir = copyWhole(r.t, r.copies[of])
		r.places = append(r.places, dir)
		r.did("start on copy %d at another place", of)
	}
	r.clock.advance(time.Duration(r.random.IntN(3000)) * time.Millisecond)
	r.Store = start(r.t, dir, r.opt)
}

// copyWhole is copyDir with the identity of the store, as every real copy has it.
func copyWhole(t testing.TB, dir string) string {
	t.Helper()
	to := copyDir(t, dir)
	writeFile(t, filepath.Join(to, identityName), readFile(t, filepath.Join(dir, identityName)))
	return to
}

// protect gives the files of a directory the modes that a store asks for.
func protect(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRollback puts the store back, copies it and goes on with the copies, again and
// again, and sends all requests again after each step: none is accepted twice.
func TestRollback(t *testing.T) {
	for run := range 20 {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			r := &rollback{bench: newBench(t, Options{}), random: rand.New(rand.NewPCG(uint64(run), 15)), taken: make(map[[16]byte]int)}
			r.places = []string{r.dir}
			r.copy()
			for range 25 {
				r.use()
				if r.random.IntN(3) == 0 {
					r.copy()
				}
				r.goOn()
				for _, c := range r.claims {
					r.send(c)
				}
			}
		})
	}
}

// TestCopyInUse: two processes cannot work on copies of one directory at once.
func TestCopyInUse(t *testing.T) {
	b := newBench(t, Options{})
	s, err := Open(copyWhole(t, b.dir), b.opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), s.dir+" is a copy of a store that another process uses") {
		t.Errorf("Start: %v, want that it is a copy", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Errorf("after the other has ended: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestIdentity: a store without an identity gets one, for which no mark is missing, and
// a damaged one is replaced.
func TestIdentity(t *testing.T) {
	b := newBench(t, Options{})
	path := filepath.Join(b.dir, identityName)
	first := string(readFile(t, path))
	for name, content := range map[string]string{"missing": "", "damaged": "x\n", "of another form": strings.ToLower(first)} {
		b.expect(b.claim(), auth.Accepted)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if remove(t, path); content != "" {
			writeFile(t, path, []byte(content))
		}
		b.problems = &problems{}
		b.opt.OnProblem = b.problems.add
		b.Store = start(t, b.dir, b.opt)
		if next := string(readFile(t, path)); next == first || len(next) != len(first) || b.problems.text() != "" {
			t.Errorf("%s: the identity is %q, told %q", name, next, b.problems.text())
		}
	}
}
