package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// held are the locks of a directory that a store uses.
type held []*flock.Flock

const lockName = "lock"

// holdDirectory locks the directory for this process, or returns an error that
// names the directory. It takes two locks. One is on the directory itself:
// removing that removes the state too. The other is on the lock file in it,
// which earlier versions lock.
func holdDirectory(dir string) (held, error) {
	var all held
	for _, lock := range []*flock.Flock{
		flock.New(dir, flock.SetFlag(os.O_RDONLY)),
		flock.New(filepath.Join(dir, lockName), flock.SetPermissions(0o600)),
	} {
		locked, err := lock.TryLock()
		switch {
		case err != nil:
			err = fmt.Errorf("locking directory %s: %w", dir, err)
		case !locked:
			err = fmt.Errorf("directory %s is used by another process: stop that one, or give this one a directory of its own", dir)
		}
		if err != nil {
			return nil, errors.Join(err, all.release())
		}
		all = append(all, lock)
	}
	return all, nil
}

// release unlocks the directory.
func (h held) release() (err error) {
	for _, lock := range h {
		err = errors.Join(err, lock.Close())
	}
	return err
}

// hold takes the directory for this process alone, and every copy of it.
func (s *Store) hold() (held, error) {
	lock, err := holdDirectory(s.dir)
	if err != nil {
		return nil, err
	}
	if s.identity, s.identityKnown, err = identify(s.dir, s.opt.sync); err != nil || s.opt.RuntimeDir == "" {
		if err != nil {
			err = errors.Join(err, lock.release())
		}
		return lock, err
	}
	of, err := holdIdentity(s.opt.RuntimeDir, s.identity, s.dir)
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	return append(lock, of), nil
}
