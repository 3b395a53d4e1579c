package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"testing"

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
