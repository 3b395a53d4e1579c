package node

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Draining ends when no more requests arrive, and at the latest after drainFor.
func TestDrainEnds(t *testing.T) {
	for _, tt := range []struct{ requests, want int }{
		{0, drainQuiet}, {1, 1 + drainQuiet}, {50, 50 + drainQuiet}, {drainFor, drainFor}, {2 * drainFor, drainFor},
	} {
		d := new(drain)
		left := new(atomic.Bool)
		left.Store(true)
		pauses := 0
		d.wait(func(time.Duration) {
			if pauses++; pauses <= tt.requests {
				d.SendsAway(left, &http.Request{ProtoMajor: 1})
			}
		})
		if pauses != tt.want {
			t.Errorf("with a request in each of %d pauses, draining takes %d, want %d", tt.requests, pauses, tt.want)
		}
	}
}
