// Package storetest is the test suite that every backend of the store must pass.
// It has a simple model of a backend and compares the backend with it, in tables
// of cases, in random histories and under contention.
//
// Begin with [Run].
package storetest

import (
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// A Setup is a backend under test, started, on state of its own.
type Setup struct {
	Backend store.Backend

	// Now is the clock of the claims. It must be near the clock of the
	// backend, if that has one.
	Now func() time.Time

	// Advance moves Now, and with it every clock of the backend, forward. It is
	// nil if the clock of the backend cannot be moved; the tests that need it are
	// then skipped.
	Advance func(d time.Duration)

	// ClaimClock is true if the backend decides limits at Claim.Now, to the
	// microsecond. It is false for a backend with its own clock for limits. Times
	// in its verdicts may then differ by two seconds.
	ClaimClock bool

	// RaiseFloor makes the backend act as after a real loss of the nonces of
	// requests stamped up to a moment. The moment is kept when the backend is
	// reopened, and never falls. RaiseFloor is nil for a backend that cannot lose
	// nonces; the tests that need it are then skipped.
	RaiseFloor func(t testing.TB, to time.Time)

	// Damage has ways of making the record of a key unreadable, by name, as
	// something other than a gateway may. It is empty for a backend that checks its
	// records as a whole when it is opened.
	Damage map[string]func(t testing.TB, id string)

	// Reopen ends Backend and starts another one on the same state.
	Reopen func(t testing.TB, how Ending) store.Backend
}

// An Ending is how the life of a backend ends.
type Ending int

// The endings.
const (
	Closed  Ending = iota // by Close
	Crashed               // without a chance to write anything more
)

// A Factory returns a Setup on fresh state. It must close all that it opens, and
// all that Reopen returns, by t.Cleanup.
type Factory func(t testing.TB) *Setup

// Run runs the whole suite.
func Run(t *testing.T, open Factory) {
	t.Helper()
	parts := []struct {
		name string
		run  func(*testing.T, Factory)
	}{
		{"Order", testOrder},
		{"Window", testWindow},
		{"ReplayFloor", testReplayFloor},
		{"RefusedWritesNothing", testRefusedWritesNothing},
		{"Counting", testCounting},
		{"Lock", testLock},
		{"LockDuration", testLockDuration},
		{"LockShare", testLockShare},
		{"ManyHolders", testManyHolders},
		{"DryRun", testDryRun},
		{"Stale", testStale},
		{"ClearFailures", testClearFailures},
		{"LastUsed", testLastUsed},
		{"NoncePerKey", testNoncePerKey},
		{"NonceLife", testNonceLife},
		{"NonceClockJump", testNonceClockJump},
		{"WiderWindow", testWiderWindow},
		{"NarrowerWindow", testNarrowerWindow},
		{"AnyWindow", testAnyWindow},
		{"Limits", testLimits},
		{"LimitsRefill", testLimitsRefill},
		{"LimitsDryRun", testLimitsDryRun},
		{"LimitChanged", testLimitChanged},
		{"Levels", testLevels},
		{"Put", testPut},
		{"PutAtOnce", testPutAtOnce},
		{"Delete", testDelete},
		{"RecordKept", testRecordKept},
		{"List", testList},
		{"Damaged", testDamaged},
		{"Restore", testRestore},
		{"Meta", testMeta},
		{"MetaAtOnce", testMetaAtOnce},
		{"Copies", testCopies},
		{"FailuresAtOnce", testFailuresAtOnce},
		{"LockAtOnce", testLockAtOnce},
		{"QuotaAtOnce", testQuotaAtOnce},
		{"ChangeAtOnce", testChangeAtOnce},
		{"Reopen", testReopen},
		{"Closed", testClosed},
		{"History", testHistory},
		{"LockHistory", testLockHistory},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) { p.run(t, open) })
	}
}
