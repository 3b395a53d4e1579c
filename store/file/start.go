package file

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/card-gateway/card-gateway/platform"
	"github.com/card-gateway/card-gateway/store/file/journal"
)

var errNoRuntimeDir = errors.New("there is no runtime directory: a journal that lost its end, or a store that was put back from an older copy, will not be noticed; set runtime_dir to a directory that outlives the process, such as one in /run")

// startState returns the state from the key file and the journal. It raises the
// replay floor if nonces may have been lost, and begins a new segment of the
// journal.
func (s *Store) startState() (*state, error) {
	st, err := s.readState()
	if err != nil {
		return nil, err
	}
	now := s.opt.Clock()
	c, err := st.replay(filepath.Join(s.dir, journalDir), now.Unix())
	if err != nil {
		return nil, err
	}
	why, err := s.lost(st, c)
	if err != nil {
		return nil, err
	}
	if why != "" {
		floor := max(now.UnixNano(), c.Seen*1e9)
		st.raiseFloor(floor)
		s.opt.OnProblem(fmt.Errorf("nonces may be lost: %s; requests stamped up to %s are refused",
			why, time.Unix(0, floor).UTC().Format(time.RFC3339)))
	}
	if why == "" && st.noted[1] != "" && !slices.Contains(st.noted[:], *st.keySum.Load()) {
		s.opt.OnProblem(errKeysReplaced)
	}
	st.journal, err = c.Continue(journal.Options{
		Boot: s.opt.boot, Marks: s.markPaths(), Problem: s.opt.OnProblem,
		Horizon: st.horizon, RetryAfter: s.opt.retryAfter,
	}, now.Unix())
	if err != nil {
		return nil, err
	}
	st.note(*st.keySum.Load())
	if err = st.recordLocks(); err == nil && len(c.Damage) > 0 {
		err = st.rewrite(c.Segments, now.Unix())
	}
	if err != nil {
		return nil, errors.Join(err, st.journal.Close())
	}
	return st, nil
}

// errKeysReplaced is for a key file that does not end where the journal notes.
var errKeysReplaced = errors.New("the key file and the journal do not fit: the key file was put back from a copy, or its end is missing, or it was changed by an older version; later changes of keys may be lost, so compare the keys with the audit record")

// errRuntimeInside is for a mark that is put back together with what it should prove.
var errRuntimeInside = errors.New("the runtime directory is inside the directory of the store: a store that is put back whole from an older copy will not be noticed; set runtime_dir to a directory outside that outlives the process, such as one in /run")

// lost returns the reason why nonces may have been lost before this start, or "".
func (s *Store) lost(st *state, c *journal.Contents) (why string, err error) {
	if inside, err := filepath.Rel(s.dir, s.opt.RuntimeDir); err == nil && s.opt.RuntimeDir != "" && filepath.IsLocal(inside) {
		s.opt.OnProblem(errRuntimeInside)
	}
	why, err = s.markFault(st, c)
	switch {
	case err != nil:
		return "", err
	case len(c.Damage) > 0:
		return fmt.Sprintf("the journal is damaged; the first of %d faults is %s", len(c.Damage), c.Damage[0]), nil
	case len(c.Segments) == 0 && st.version != 0:
		return "there are keys, but no journal", nil
	case len(c.Segments) > 0 && !c.SameBoot(s.opt.boot):
		return "the machine was started anew", nil
	case s.opt.RuntimeDir == "":
		s.opt.OnProblem(errNoRuntimeDir)
		return "", nil
	default:
		return why, nil
	}
}

// dirLocks are the locks of a directory that a store uses.
type dirLocks []*flock.Flock

const lockName = "lock"

// add takes a lock. doing is what an error begins with, and taken is the error if
// another process has it.
func (l *dirLocks) add(lock *flock.Flock, doing, taken string) error {
	locked, err := lock.TryLock()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	case !locked:
		return errors.Join(errors.New(taken), lock.Close())
	}
	*l = append(*l, lock)
	return nil
}

// release unlocks the directory.
func (l dirLocks) release() (err error) {
	for _, lock := range l {
		err = errors.Join(err, lock.Close())
	}
	return err
}

// hold takes the directory for this process alone, and every copy of it. Without a
// runtime directory it does not notice copies.
func (s *Store) hold() (locks dirLocks, err error) {
	err = s.holdDirectory(&locks)
	if err == nil {
		s.identity, s.identityKnown, err = identify(s.dir, s.opt.sync)
	}
	if err == nil && s.opt.RuntimeDir != "" {
		err = s.holdIdentity(&locks)
	}
	if err != nil {
		return nil, errors.Join(err, locks.release())
	}
	return locks, nil
}

// holdDirectory takes two locks. One is on the directory itself: removing that
// removes the state too. The other is on the lock file in it, which earlier versions
// lock.
func (s *Store) holdDirectory(locks *dirLocks) error {
	for _, lock := range []*flock.Flock{
		flock.New(s.dir, flock.SetFlag(os.O_RDONLY)),
		flock.New(filepath.Join(s.dir, lockName), flock.SetPermissions(0o600)),
	} {
		err := locks.add(lock, "locking directory "+s.dir,
			fmt.Sprintf("directory %s is used by another process: stop that one, or give this one a directory of its own", s.dir))
		if err != nil {
			return err
		}
	}
	return nil
}

// holdIdentity locks the identity for this process. Two processes on copies of one
// directory would each accept what the other has accepted.
func (s *Store) holdIdentity(locks *dirLocks) error {
	if err := os.MkdirAll(s.opt.RuntimeDir, 0o700); err != nil {
		return fmt.Errorf("making the runtime directory, for the high-water mark of the journal: %w", err)
	}
	if err := platform.CheckOwnDir(s.opt.RuntimeDir); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(s.opt.RuntimeDir, markPrefix+s.identity+".lock"), flock.SetPermissions(0o600))
	return locks.add(lock, "locking the identity of the store, in the runtime directory",
		fmt.Sprintf("%s is a copy of a store that another process uses, so that both would accept the same requests: stop that process first", s.dir))
}

// The identity of a store is a random name in a file of its directory. Copies of the
// directory have the same, so that what happened to one is known to all.
const (
	identityName   = "identity"
	identityLength = 26 // of rand.Text
)

// identify returns the identity of the store in the directory. It makes one if there
// is none, and known is false then.
func identify(dir string, sync func(*os.File) error) (id string, known bool, err error) {
	path := filepath.Join(dir, identityName)
	b, err := readOwn(path)
	id = strings.TrimSpace(string(b))
	switch {
	case err == nil && len(id) == identityLength && !strings.ContainsFunc(id, notBase32):
		return id, true, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", false, fmt.Errorf("reading the identity of the store: %w", err)
	}
	id = rand.Text()
	if err := replaceFile(path, []byte(id+"\n"), sync); err != nil {
		return "", false, fmt.Errorf("writing the identity of the store: %w", err)
	}
	return id, false, nil
}

func notBase32(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') }

// readOwn returns the content of a file of the store. It returns os.ErrNotExist if it is
// missing, and fails as platform.OpenOwn does.
func readOwn(path string) ([]byte, error) {
	f, err := platform.OpenOwn(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
