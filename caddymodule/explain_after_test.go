package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/store"
)

// sentWriter notes how many refusals were remembered when the answer was sent.
type sentWriter struct {
	*httptest.ResponseRecorder
	memory     *node.State
	remembered int
}

func (w *sentWriter) FlushError() error {
	w.remembered = len(w.memory.Refusals.List("", 10))
	return nil
}

// An answer that does not say what was wrong never waits for the explanation, so
// its time does not depend on what is found.
func TestExplainingComesAfterTheAnswer(t *testing.T) {
	g := newGate(t)
	live := g.signer(store.Fields{})
	debugged := g.signer(store.Fields{DebugUntil: time.Now().Add(time.Hour)})
	for name, change := range broken {
		for _, by := range []*sign.Signer{live, debugged} {
			state := g.auth.site.state
			state.process = node.New()
			r := httptest.NewRequest(http.MethodGet, "/api/v1/cards/c1", nil)
			if err := by.Sign(r, nil); err != nil {
				t.Fatal(err)
			}
			change(r)
			w := &sentWriter{httptest.NewRecorder(), state.process, -1}
			g.serve(w, r, "192.0.2.1")
			if w.Code == http.StatusNoContent {
				continue
			}
			if n := len(state.process.Refusals.List("", 10)); n != 1 {
				t.Errorf("%s: %d refusals are explained and remembered, want 1", name, n)
			}
			shown := strings.Contains(w.Body.String(), "string_to_sign")
			if shown != (by == debugged) || (w.remembered == 0) == shown {
				t.Errorf("%s: %d refusals were explained when the answer was sent (-1: it was not): %s", name, w.remembered, w.Body)
			}
		}
	}
}

// What is remembered of a refusal shows no card number that stood in the URL, and
// keeps its five lines.
func TestRefusalsAreRememberedMasked(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	by := g.signer(store.Fields{})
	const number = "4111111111111111"
	g.get(by, "192.0.2.1", func(r *http.Request) {
		r.RequestURI += "/" + number + "?pan=" + number
		r.URL.Path += "/" + number
		r.URL.RawQuery = "pan=" + number
		r.Header.Set("X-Request-Id", "r-1")
	})
	entry, found := g.auth.site.state.process.Refusals.Find("r-1")
	if !found || strings.Contains(entry.StringToSign, number) || strings.Count(entry.StringToSign, "\n") != 4 || !strings.HasPrefix(entry.StringToSign, "GET\n/api/v1/cards/***?pan=***\n") {
		t.Errorf("%t: %q", found, entry.StringToSign)
	}
}
