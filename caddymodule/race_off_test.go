//go:build !race

package caddymodule

const raceDetector = false
