// Package file is the embedded store: one process, one directory, no server.
//
// The records of the keys are in keys.json. Everything else is in memory and in a
// journal from which it is read back at the start: nonces, failure counts, locks,
// levels of rate limits and when secrets were last used all survive the end of
// the process, however it ends.
//
// Where nonces may have been lost, because the machine was started anew or the
// journal is damaged or missing, the replay floor of the contract applies. No
// guarantee against repeated requests depends on the clock: a request whose
// timestamp is not after that of a nonce which was dropped is refused.
package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// Options are the bounds and the surroundings of a store.
type Options struct {
	// MaxNonces and MaxNoncesPerKey are the most nonces that are kept. At either
	// limit requests are refused with store.ErrFull. Default: 8,000,000 and
	// 2,000,000. What a nonce costs in memory is in docs/deployment.md, Capacity.
	MaxNonces       int64
	MaxNoncesPerKey int64
	// RuntimeDir is a directory that does not go where the store's directory
	// goes: not into its backups, its snapshots or another machine. It must
	// outlive the process and may end with the machine, as systemd's
	// RuntimeDirectory with RuntimeDirectoryPreserve does. A high-water mark
	// of the journal is kept in it. At a start beside a journal that is not
	// empty, a mark that is missing or differs raises the replay floor, and so
	// does a mark beside an empty journal. Default: none; then a journal that
	// lost its end, or a directory that was put back from an older copy, is
	// not noticed, and OnProblem is told so at each start.
	RuntimeDir string
	// Clock tells the time for all that is not done for a claim. Default:
	// time.Now.
	Clock func() time.Time
	// OnProblem, when set, is called with what an operator should know: that
	// the replay floor applies and why, and that something cannot be written.
	// It must not call the store.
	OnProblem func(error)

	// boot names the run of the machine; tests set it.
	boot string
	// elapsed returns how much time has passed between the start and the
	// moment; tests set it, where the wall clock jumps. Default: by the
	// monotonic clock, if both have its reading.
	elapsed func(now time.Time) time.Duration
	// sync brings a file or directory to the disk; tests set it.
	sync func(*os.File) error
}

func (o Options) withDefaults() Options {
	if o.MaxNonces <= 0 {
		o.MaxNonces = 8_000_000
	}
	if o.MaxNoncesPerKey <= 0 {
		o.MaxNoncesPerKey = 2_000_000
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.OnProblem == nil {
		o.OnProblem = func(error) {}
	}
	if o.sync == nil {
		o.sync = (*os.File).Sync
	}
	if o.boot == "" {
		o.boot = currentBoot()
	}
	return o
}

// A Store is a store.Backend in a directory.
type Store struct {
	dir   string
	opt   Options
	state atomic.Pointer[state] // nil: closed

	life   sync.Mutex // guards what follows
	closed bool
	lock   held
	stop   chan struct{} // nil: not started
	kept   sync.WaitGroup
}

var _ store.Backend = (*Store)(nil)

const journalDir = "journal"

// Open reads the key file of the directory, if there is one, so that reading
// methods work. It writes nothing and takes no lock: another process may be
// using the directory.
func Open(dir string, opt Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("store directory %q: %w", dir, err)
	}
	s := &Store{dir: dir, opt: opt.withDefaults()}
	st, _, err := s.readState()
	if err != nil {
		return nil, err
	}
	s.state.Store(st)
	return s, nil
}

// readState returns the state as the key file has it, of a directory into
// which others may not write.
func (s *Store) readState() (st *state, found bool, err error) {
	for _, dir := range []string{s.dir, filepath.Join(s.dir, journalDir)} {
		if err := checkDirectory(dir); err != nil {
			return nil, false, err
		}
	}
	path := filepath.Join(s.dir, keyFileName)
	f, found, err := readKeyFile(path)
	if err != nil {
		return nil, false, err
	}
	st = newState(s.opt, path)
	ids := make([]string, 0, len(f.Keys))
	for _, r := range f.Keys {
		stored, err := newStored(r)
		if err != nil {
			return nil, false, err
		}
		st.makeKey(r.ID).stored.Store(stored)
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	st.ids.Store(&ids)
	if f.Meta != nil {
		st.meta.Store(&f.Meta)
	}
	return st, found, nil
}

// Start implements store.Backend. It makes the directory if there is none,
// takes it for this process alone and reads the journal.
func (s *Store) Start(context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return errClosed
	}
	if s.stop != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(s.dir, journalDir), 0o700); err != nil {
		return fmt.Errorf("making the store's directory: %w", err)
	}
	lock, err := holdDirectory(s.dir)
	if err != nil {
		return err
	}
	wake := make(chan struct{}, 1)
	st, err := s.startState(wake)
	if err != nil {
		return errors.Join(err, lock.release())
	}
	s.lock, s.stop = lock, make(chan struct{})
	s.state.Store(st)
	s.kept.Go(func() { st.keepUp(wake, s.stop) })
	return nil
}

// Close implements store.Backend. Requests that are being settled either are
// in the journal by then or get an error.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	st := s.state.Swap(nil)
	if s.stop == nil {
		return nil
	}
	close(s.stop)
	s.kept.Wait()

	st.changes.Lock()
	defer st.changes.Unlock()
	st.closed = true
	var err error
	if st.unfolded.Load() {
		err = st.writeKeyFile(change{})
	}
	return errors.Join(err, st.journal.close(), s.lock.release())
}

// Ready implements store.Backend.
func (s *Store) Ready(context.Context) error {
	st := s.state.Load()
	if st == nil || st.journal == nil {
		return errNotStarted
	}
	if err := st.journal.ready(); err != nil {
		return err
	}
	return st.clockWasAhead()
}

// Local says that reading is answered from memory.
func (s *Store) Local() bool { return true }

// Status implements store.Backend.
func (s *Store) Status(ctx context.Context) store.Status {
	status := store.Status{Backend: "file", Place: s.dir}
	if err := s.Ready(ctx); err != nil {
		status.Problem = err.Error()
	} else {
		status.Ready = true
	}
	st := s.state.Load()
	if st == nil {
		return status
	}
	status.Details = map[string]any{"keys": len(*st.ids.Load()), "nonces": st.live.Load(), "max_nonces": s.opt.MaxNonces}
	if st.journal != nil {
		segments, bytes := st.journal.extent()
		status.Details["journal_segments"], status.Details["journal_bytes"] = segments, bytes
	}
	if floor := st.floor.Load(); floor != 0 {
		status.Details["replay_floor"] = time.Unix(0, floor).UTC().Format(time.RFC3339)
	}
	return status
}
