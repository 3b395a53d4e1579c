package harness

import (
	"syscall"
	"testing"
)

// Fuzzing prepares a fuzz target that starts processes. Go runs it in workers, which
// report over the descriptors 3 to 5. A process that a worker starts would hold them
// open, and nobody would notice that the worker has ended.
func Fuzzing(f *testing.F) {
	f.Helper()
	for descriptor := 3; descriptor <= 5; descriptor++ {
		syscall.CloseOnExec(descriptor)
	}
}
