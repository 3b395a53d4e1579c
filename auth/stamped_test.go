package auth_test

import (
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// TestStampedAfter: of a key that was copied from elsewhere, requests stamped up to
// that second may have been accepted there, and are refused here.
func TestStampedAfter(t *testing.T) {
	r := goodRequest(t)
	stamped := time.Unix(r.Credentials.Unix, 0)
	for after, refused := range map[time.Time]bool{
		{}: false, stamped.Add(-time.Second): false, stamped: true, stamped.Add(999 * time.Millisecond): true, stamped.Add(time.Second): true,
	} {
		k := goodKey(t)
		k.StampedAfter = after
		if got := auth.Judge(r, k, fixtureWindow, fixtureNow).Failed.Has(auth.RuleTimestamp); got != refused {
			t.Errorf("stamped at %v, after %v: refused %v", stamped, after, got)
		}
	}
}
