//go:build race

package caddymodule

// raceDetector: under it sync.Pool drops at random, so allocations tell
// nothing.
const raceDetector = true
