//go:build !race

package assertion_test

const raceDetector = false
