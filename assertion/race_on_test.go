//go:build race

package assertion_test

// raceDetector is true if the race detector runs. Then sync.Pool drops values
// at random, so a count of allocations means nothing.
const raceDetector = true
