//go:build race

package auth_test

// raceDetector: under it sync.Pool drops at random, so allocations tell
// nothing.
const raceDetector = true
