//go:build !race

package forward

const raceDetector = false
