package file

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/storetest"
)

// A testClock is moved by hand.
type testClock struct{ nanos atomic.Int64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.nanos.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *testClock) now() time.Time          { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *testClock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

func TestSuite(t *testing.T) {
	storetest.Run(t, func(t testing.TB) *storetest.Setup {
		clock := newTestClock()
		opt := Options{Clock: clock.now, boot: "one", RuntimeDir: t.TempDir(), OnProblem: func(err error) { t.Errorf("problem: %v", err) }}
		dir := filepath.Join(t.TempDir(), "store")
		current := start(t, dir, opt)
		return &storetest.Setup{
			Backend: current, Now: clock.now, Advance: clock.advance, ClaimClock: true,
			RaiseFloor: func(t testing.TB, to time.Time) {
				st := current.state.Load()
				st.raiseFloor(to.UnixNano())
				if err := st.journal.Drop(nil, clock.now().Unix()); err != nil { // writes the floor into the journal
					t.Fatal(err)
				}
			},
			Reopen: func(_ testing.TB, how storetest.Ending) store.Backend {
				if how == storetest.Crashed {
					// What is in the files now is what a killed process leaves.
					dir = copyStore(t, opt.RuntimeDir, dir)
				}
				if err := current.Close(); err != nil {
					t.Fatal(err)
				}
				current = start(t, dir, opt)
				return current
			},
		}
	})
}

// start opens and starts a store that is closed with the test.
func start(t testing.TB, dir string, opt Options) *Store {
	t.Helper()
	s, err := Open(dir, opt)
	if err == nil {
		err = s.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// copyDir copies the files of a running store to a new directory, as a killed
// process would leave them. It starts again if the keeper has removed a file
// meanwhile.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	for {
		to := filepath.Join(t.TempDir(), "store")
		before := storeFiles(t, dir)
		err := copyFiles(dir, to, before)
		if err == nil && slices.Equal(before, storeFiles(t, dir)) {
			return to
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// storeFiles returns the paths, below the directory, of all files that a store
// reads at its start.
func storeFiles(t testing.TB, dir string) (names []string) {
	t.Helper()
	for _, pattern := range []string{keyFileName, journalDir + "/*.journal"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			names = append(names, strings.TrimPrefix(p, dir))
		}
	}
	return names
}

func copyFiles(from, to string, names []string) error {
	if err := os.MkdirAll(filepath.Join(to, journalDir), 0o700); err != nil {
		return err
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestDirectoryIsHeld: a second store on the directory is refused, even if
// somebody has removed the lock file of the running one.
func TestDirectoryIsHeld(t *testing.T) {
	for _, remove := range []string{"", lockName} {
		t.Run("without "+remove, func(t *testing.T) {
			b := newBench(t, Options{})
			c := b.claim()
			b.expect(c, auth.Accepted)
			if remove != "" {
				paths, err := filepath.Glob(filepath.Join(b.dir, remove))
				if err != nil || len(paths) == 0 {
					t.Fatalf("%v, %v: nothing to remove", paths, err)
				}
				for _, path := range paths {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			second, err := Open(b.dir, b.opt)
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "used by another process") {
				v, _ := second.Settle(t.Context(), c)
				t.Fatalf("Start: %v; the request that was accepted is now %v", err, v.Reason)
			}
			b.expect(b.claim(), auth.Accepted)
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			if err := second.Start(t.Context()); err != nil {
				t.Fatalf("Start after the other has ended: %v", err)
			}
		})
	}
}
