package clockshift_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness/clockshift"
)

// The wall clock makes a step, but the measured duration does not.
func TestNow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shift")
	t.Setenv("CLOCK_SHIFT", file)
	set := func(seconds int64) {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(binary.NativeEndian.AppendUint64(nil, uint64(seconds))); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	began := clockshift.Now()
	for _, seconds := range []int64{400, -400, 0} {
		set(seconds)
		before, now, after := time.Now(), clockshift.Now(), time.Now()
		off := time.Duration(seconds) * time.Second
		if wall := now.Round(0).Add(-off); wall.Before(before.Round(0)) || wall.After(after.Round(0)) {
			t.Errorf("%v off: %v between %v and %v", off, now, before, after)
		}
		if passed := now.Sub(began); passed < 0 || passed > time.Since(began) {
			t.Errorf("%v off: %v have passed, at most %v could", off, passed, time.Since(began))
		}
	}
}
