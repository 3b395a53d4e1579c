package file

import (
	"os"
	"time"
)

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
