package storetest

import (
	"testing"
	"time"
)

// TestWhatCannotRunIsSkipped checks that a test which a backend does not support
// is skipped, and does not pass.
func TestWhatCannotRunIsSkipped(t *testing.T) {
	open := func(testing.TB) *Setup { return &Setup{Now: time.Now} }
	for name, run := range map[string]func(*testing.T, Factory){
		"LimitsRefill":   testLimitsRefill,
		"NonceClockJump": testNonceClockJump,
		"ReplayFloor":    testReplayFloor,
	} {
		skipped := false
		t.Run(name, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			run(t, open)
		})
		if !skipped {
			t.Errorf("%s passes without the means that it needs", name)
		}
	}
}
