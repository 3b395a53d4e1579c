package file

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

var errNoRuntimeDir = errors.New("there is no runtime directory: a journal that lost its end, or a store that was put back from an older copy, will not be noticed; set runtime_dir to a directory that outlives the process, such as one in /run")

// startState returns the state from the key file and the journal. It raises the
// replay floor if nonces may have been lost, and begins a new segment of the
// journal.
func (s *Store) startState(wake chan<- struct{}) (*state, error) {
	st, hasKeys, err := s.readState()
	if err != nil {
		return nil, err
	}
	now := s.opt.Clock()
	dir := filepath.Join(s.dir, journalDir)
	r, err := st.replay(dir, now.Unix())
	if err != nil {
		return nil, err
	}
	why, err := s.lost(st, r, hasKeys)
	if err != nil {
		return nil, err
	}
	if why != "" {
		floor := max(now.UnixNano(), r.seen*1e9)
		st.raiseFloor(floor)
		s.opt.OnProblem(fmt.Errorf("nonces may be lost: %s; requests stamped up to %s are refused",
			why, time.Unix(0, floor).UTC().Format(time.RFC3339)))
	}
	st.journal = &journal{
		dir: dir, boot: bootSum(s.opt.boot), problem: s.opt.OnProblem, wake: wake,
		horizon: func() (int64, int64) { return st.forgotten.Load(), st.floor.Load() },
		sealed:  r.segments, seq: r.seq, nextID: r.nextID, size: minSegmentSize,
	}
	if err := s.beginJournal(st, r, now.Unix()); err != nil {
		return nil, errors.Join(err, st.journal.close())
	}
	return st, nil
}

// beginJournal begins a segment, whose header holds the floor. Only then it makes
// a mark that fits the journal again.
func (s *Store) beginJournal(st *state, r *replayed, now int64) error {
	err := st.journal.begin(now)
	if err == nil && s.opt.RuntimeDir != "" {
		forgotten, floor := st.journal.horizon()
		st.journal.mark, err = newMark(s.markPaths(), marked{position: r.position, forgotten: forgotten, floor: floor})
	}
	if err == nil && len(r.damage) > 0 {
		err = st.rewrite(r.segments, now)
	}
	if err == nil && st.unfolded.Load() {
		err = st.writeKeyFile(change{})
	}
	return err
}

// markPaths are where the marks of the store are: by its directory, and by its
// identity.
func (s *Store) markPaths() []string {
	return []string{markPath(s.opt.RuntimeDir, s.dir), identityMarkPath(s.opt.RuntimeDir, s.identity)}
}

// lost returns the reason why nonces may have been lost before this start, or "".
func (s *Store) lost(st *state, r *replayed, hasKeys bool) (why string, err error) {
	why, err = s.behind(st, r)
	boot := s.opt.boot
	switch {
	case err != nil:
		return "", err
	case len(r.damage) == 1:
		return "the journal is damaged, " + r.damage[0], nil
	case len(r.damage) > 1:
		return fmt.Sprintf("the journal is damaged in %d places, the first is %s", len(r.damage), r.damage[0]), nil
	case len(r.segments) == 0 && hasKeys:
		return "there are keys, but no journal", nil
	case len(r.segments) > 0 && (boot == "" || r.boot != bootSum(boot)):
		return "the machine was started anew", nil
	case s.opt.RuntimeDir == "":
		s.opt.OnProblem(errNoRuntimeDir)
		return "", nil
	default:
		return why, nil
	}
}

// behind returns the reason why a mark of the store does not fit its journal, or "".
// A store that has just got its identity has no mark by it.
func (s *Store) behind(st *state, r *replayed) (why string, err error) {
	if s.opt.RuntimeDir == "" {
		return "", nil
	}
	paths := s.markPaths()
	if !s.identityKnown {
		paths = paths[:1]
	}
	for _, path := range paths {
		reason, err := st.behind(r, path)
		if err != nil {
			return "", err
		}
		if why == "" {
			why = reason
		}
	}
	return why, nil
}
