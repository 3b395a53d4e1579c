package caddymodule

import (
	"net/http"
	"net/http/httptest"
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
	g.auth.site.state.drain.on.Store(true)
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
	began := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		last, now time.Duration // after the beginning
		want      bool
	}{
		{-time.Hour, drainQuiet - 1, false},
		{-time.Hour, drainQuiet, true},
		{drainQuiet / 2, drainQuiet, false},
		{drainQuiet / 2, drainQuiet * 3 / 2, true},
		{drainFor - 1, drainFor - 1, false},
		{drainFor - 1, drainFor, true},
	} {
		d := new(drain)
		d.last.Store(began.Add(tt.last).UnixNano())
		if got := d.over(began, began.Add(tt.now)); got != tt.want {
			t.Errorf("with the last request after %s, draining is over after %s: %v", tt.last, tt.now, got)
		}
	}
}
