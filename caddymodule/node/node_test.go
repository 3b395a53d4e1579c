package node

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// A drained node is forgotten when the time of the work is over, and at once if
// none was named.
func TestForgotten(t *testing.T) {
	for name, test := range map[string]struct {
		until *time.Time
		want  bool
	}{
		"in service":     {nil, false},
		"no time named":  {new(time.Time{}), true},
		"at work":        {new(time.Now().Add(time.Hour)), false},
		"should be done": {new(time.Now().Add(-time.Second)), true},
	} {
		var n drain
		n.Operator.Store(test.until)
		if got := n.Forgotten(); got != test.want {
			t.Errorf("%s: forgotten is %v, want %v", name, got, test.want)
		}
	}
}

// Caddy writes each subscriber of an event into its debug log.
func TestSubscribersCanBeLogged(t *testing.T) {
	var subscriber caddyevents.Handler = handler{func() {}}
	if text, err := json.Marshal(subscriber); err != nil {
		t.Errorf("%s, %v", text, err)
	}
}
