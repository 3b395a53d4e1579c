// Package file is the embedded store: one process, one directory, no server.
//
// The records of the keys, and their changes, are in keys.json. All other state is in memory and in
// a journal (package journal): nonces, failure counts and from where they are, locks, levels of
// rate limits and the last use of secrets. The store reads the journal at the start, so that this state
// survives any end of the process.
//
// If nonces may have been lost, because the machine was rebooted or the
// journal is damaged or missing, the replay floor of the contract applies. The
// protection against repeated requests does not depend on the clock: a request
// is refused unless its timestamp is after those of all nonces that were
// dropped.
//
// Begin with [Store]; settle decides a request, start is what a start reads.
package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/platform"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file/journal"
)

// A Store is a store.Backend in a directory.
type Store struct {
	dir   string
	opt   Options
	state atomic.Pointer[state] // nil: closed

	identity      string // set by Start
	identityKnown bool   // it was there before

	life   sync.Mutex // guards what follows
	closed bool
	locks  dirLocks
	stop   chan struct{} // nil: not started
	kept   sync.WaitGroup
}

var _ store.Backend = (*Store)(nil)

const journalDir = "journal"

// Open returns a store on the directory. It reads the key file, if there is one,
// so that reading methods work. It writes nothing and takes no lock, so that
// another process may use the directory.
func Open(dir string, opt Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("store directory %q: %w", dir, err)
	}
	s := &Store{dir: dir, opt: opt.withDefaults()}
	st, err := s.readState()
	if err != nil {
		return nil, err
	}
	s.state.Store(st)
	return s, nil
}

// OpenExisting is [Open] for a directory that must exist, with default options.
func OpenExisting(dir string) (*Store, error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("no such directory")
	}
	return Open(dir, Options{})
}

// readState returns the state from the key file. It fails if others may write into the
// directory.
func (s *Store) readState() (*state, error) {
	for _, dir := range []string{s.dir, filepath.Join(s.dir, journalDir)} {
		if err := platform.CheckOwnDir(dir); err != nil {
			return nil, fmt.Errorf("the store's directory: %w", err)
		}
	}
	st := newState(s.opt, filepath.Join(s.dir, keyFileName))
	f, err := readKeyFile(st.path)
	if err != nil {
		return nil, err
	}
	st.version = f.version
	st.keySum.Store(&f.sum)
	for _, r := range f.Keys {
		stored, err := newStored(r)
		if err != nil {
			return nil, err
		}
		st.makeKey(r.ID).stored.Store(stored)
		st.ids = append(st.ids, r.ID)
	}
	slices.Sort(st.ids)
	st.meta = f.Meta
	return st, nil
}

// Start implements store.Backend. It makes the directory if there is none,
// takes it for this process alone and reads the journal.
func (s *Store) Start(context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return journal.ErrClosed
	}
	if s.stop != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(s.dir, journalDir), 0o700); err != nil {
		return fmt.Errorf("making the store's directory: %w", err)
	}
	locks, err := s.hold()
	if err != nil {
		return err
	}
	st, err := s.startState()
	if err != nil {
		return errors.Join(err, locks.release())
	}
	s.locks, s.stop = locks, make(chan struct{})
	s.state.Store(st)
	if !s.opt.noKeeper {
		s.kept.Go(func() { st.keepUp(s.stop) })
	}
	return nil
}

// Close implements store.Backend. Requests that are being settled are either in
// the journal when it returns, or get an error.
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
	if st.version == keyFileGrowing || st.unfolded.Load() {
		err = st.writeKeyFile(nil)
	}
	_ = st.log.f.Close()
	st.dropSpare()
	return errors.Join(err, st.journal.Close(), s.locks.release())
}

// Ready implements store.Backend.
func (s *Store) Ready(context.Context) error {
	st := s.state.Load()
	if st == nil || st.journal == nil {
		return errNotStarted
	}
	if err := st.journal.Ready(); err != nil {
		return err
	}
	return st.clockWasAhead()
}

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
	details := &status.Details
	nonces := st.live.Load()
	st.listing.RLock()
	details.Keys, details.Nonces, details.MaxNonces = new(len(st.ids)), &nonces, s.opt.MaxNonces
	st.listing.RUnlock()
	if trouble := st.spareTrouble.Load(); trouble != nil {
		details.Degraded = append(details.Degraded, "keys")
		details.NoRoomForChanges = *trouble
	}
	if nonces > s.opt.MaxNonces/5*4 {
		details.Degraded = append(details.Degraded, "nonces")
	}
	if st.journal != nil {
		details.JournalSegments, details.JournalBytes = st.journal.Extent()
	}
	if floor := st.floor.Load(); floor != 0 {
		details.ReplayFloor = time.Unix(0, floor).UTC()
	}
	return status
}

// Options are the bounds of a store, and what it needs from its environment.
type Options struct {
	// MaxNonces and MaxNoncesPerKey are the most nonces that are kept. At either
	// limit requests are refused with store.ErrFull. Default: 8,000,000 and
	// 2,000,000. What a nonce costs in memory is in docs/maintenance.md, Capacity.
	MaxNonces       int64
	MaxNoncesPerKey int64
	// RuntimeDir is the directory of the journal's high-water mark. It must not
	// be part of backups or snapshots of the store's directory, or move with it
	// to another machine. It must survive the end of the process, but need not
	// survive the end of the machine, as systemd's RuntimeDirectory with
	// RuntimeDirectoryPreserve does.
	//
	// The replay floor rises at a start if the journal is not empty and the mark
	// is missing or differs, and if the journal is empty and there is a mark.
	// Default: no directory. Then the store does not notice that a journal lost
	// its end, or that its directory was put back from an older copy. It reports
	// that to OnProblem at each start.
	RuntimeDir string
	// Clock returns the time for all work that is not for a claim. Default:
	// time.Now.
	Clock func() time.Time
	// OnProblem, when set, is called with problems that an operator should know:
	// that the replay floor applies and why, and that something cannot be
	// written. It must not call the store.
	OnProblem func(error)

	// boot identifies this run of the machine; tests set it.
	boot string
	// elapsed returns the time that has passed between the start and the
	// moment. Tests set it to let the wall clock jump. Default: by the monotonic
	// clock, if both have its reading.
	elapsed func(now time.Time) time.Duration
	// sync writes a file or directory through to the disk; tests set it.
	sync func(*os.File) error
	// noKeeper starts no keeper; tests set it and do its work.
	noKeeper bool
	// retryAfter is the time after a failure to make a segment of the journal in
	// which nothing tries again; tests set it.
	retryAfter time.Duration
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
	o.boot, o.retryAfter = cmp.Or(o.boot, platform.Boot()), cmp.Or(o.retryAfter, 250*time.Millisecond)
	return o
}
