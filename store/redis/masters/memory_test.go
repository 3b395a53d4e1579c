package masters

import "testing"

// An eviction is reported to the other gateways by the first check that can
// reach them, even if the checks before it failed.
func TestEvictionIsRememberedUntilTold(t *testing.T) {
	m := newObservations()
	look := func(evicted int64, told, want bool) {
		t.Helper()
		if got := m.evictedMore(&serverInfo{run: "a", evicted: evicted}); got != want {
			t.Errorf("%d evicted: %v, want %v", evicted, got, want)
		}
		if told {
			m.remember([]serverInfo{{identity: "a"}})
		}
	}
	look(3, true, false) // before this gateway began
	look(5, false, true)
	look(5, true, true)
	look(5, true, false)
	look(6, true, true)
}
