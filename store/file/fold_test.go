package file

import (
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// TestLockOutlivesItsSegment: a lock that is set while old segments are removed
// may be in one of them, and not yet in the key file. It survives, even if the
// process is killed then.
func TestLockOutlivesItsSegment(t *testing.T) {
	b := newBench(t, Options{})
	st := b.state.Load()
	b.fail(2)
	other := b.newKey()

	st.keeping.Lock() // the keeper waits after it has read the locks
	b.clock.advance(time.Hour)
	c := b.claim()
	c.LockAfter = 2
	b.expect(c, auth.KeyLocked)
	err := st.journal.Prepare()
	b.clock.advance(61 * time.Second)
	b.record = other
	b.fail(1) // in the next segment
	now := b.clock.now().Unix()
	dead := st.journal.Tidy(now)
	if err == nil && len(dead) > 0 {
		err = st.retire(dead, now)
	}
	dir := copyDir(t, b.dir)
	st.keeping.Unlock()
	if len(dead) == 0 || err != nil {
		t.Fatalf("%d dead segments, %v", len(dead), err)
	}

	r, err := start(t, dir, b.opt).Get(t.Context(), c.KeyID)
	if err != nil || r.Lock == nil || r.Revision != c.NextRevision {
		t.Errorf("%+v, %v: want the lock", r, err)
	}
}
