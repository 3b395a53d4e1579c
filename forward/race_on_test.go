//go:build race

package forward

// raceDetector is true if the race detector runs. Then sync.Pool drops values
// at random, so a count of allocations means nothing.
const raceDetector = true
