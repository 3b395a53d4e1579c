package caddymodule

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// underFloor is a store that may have lost nonces.
type underFloor struct{ store.Backend }

func (underFloor) Settle(context.Context, *store.Claim) (store.Verdict, error) {
	return store.Verdict{Reason: auth.ReplayFloor, RetryAfter: 4200 * time.Millisecond}, nil
}

// TestReplayFloorIsNotTheClientsFault: a request that only the replay floor
// forbids is answered with 503 and the time after which to sign it anew.
func TestReplayFloorIsNotTheClientsFault(t *testing.T) {
	g := newGate(t)
	by := g.signer(store.Fields{})
	g.auth.site.state.backend = underFloor{g.auth.site.state.backend}
	w := g.get(by, "192.0.2.1", func(*http.Request) {})
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" ||
		!strings.Contains(w.Body.String(), `"code":"SERVICE_UNAVAILABLE"`) || w.Header().Get("Www-Authenticate") != "" {
		t.Errorf("%d %v %s, want 503 and Retry-After 5", w.Code, w.Header(), w.Body)
	}
}
