//go:build !go1.27

package caddymodule

// answerAtOnce does nothing: net/http of Go 1.26 panics when the rest of a body
// arrives behind an answer that went out before it. The answer waits for the
// body, a minute at most.
func (p *passage) answerAtOnce() {}
