package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// Each answer of a configuration that is drained closes its connection. Answers
// of other configurations do not.
func TestDrainedAnswers(t *testing.T) {
	g := newGate(t)
	s := g.signer(store.Fields{})
	connection := func(major int) string {
		return g.get(s, "192.0.2.1", func(r *http.Request) { r.ProtoMajor = major }).Header().Get("Connection")
	}
	if got := connection(1); got != "" {
		t.Errorf("Connection is %q before the end", got)
	}
	g.auth.site.state.left.Store(true)
	if got := connection(1); got != "close" {
		t.Errorf("Connection is %q while the configuration is drained", got)
	}
	if got := connection(2); got != "" {
		t.Errorf("Connection is %q over HTTP/2", got)
	}
	w := httptest.NewRecorder()
	if err := (&Health{Check: "live", state: g.auth.site.state}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/livez", http.NoBody), nil); err != nil {
		t.Fatal(err)
	}
	if got := w.Header().Get("Connection"); got != "close" {
		t.Errorf("Connection of a health check is %q", got)
	}
}

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
				d.sendsAway(left, &http.Request{ProtoMajor: 1})
			}
		})
		if pauses != tt.want {
			t.Errorf("with a request in each of %d pauses, draining takes %d, want %d", tt.requests, pauses, tt.want)
		}
	}
}
