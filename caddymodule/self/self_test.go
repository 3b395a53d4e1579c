package self

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// The bounds hold for a configuration in JSON as well.
func TestSelfOverlap(t *testing.T) {
	const day = 24 * time.Hour
	for overlap, good := range map[time.Duration]bool{
		time.Hour - 1: false, time.Hour: true, day: true, 90 * day: true, 90*day + 1: false, -day: false, 0: false,
	} {
		h := Self{Overlap: caddy.Duration(overlap)}
		if err := h.Validate(); (err == nil) != good {
			t.Errorf("an overlap of %s: %v", overlap, err)
		}
	}
}
