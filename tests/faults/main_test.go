package faults

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !full {
		_ = flag.Set("test.parallel", "6") // they wait for faults, not for a CPU
	}
	os.Exit(m.Run())
}
