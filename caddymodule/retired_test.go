package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/store"
)

// rotated returns a gate with a key whose first secret is retired, a signer for
// each secret, and the log of refusals.
func rotated(t *testing.T) (g *testedGate, old, fresh *sign.Signer, log *observer.ObservedLogs) {
	t.Helper()
	g = newGate(t)
	core, log := observer.New(zapcore.DebugLevel)
	g.auth.site.telemetry.Refused = zap.New(core)
	old = g.signer(store.Fields{})
	changed, err := g.keys.Rotate(t.Context(), old.KeyID, keys.Rotation{}, keys.By{Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return g, old, &sign.Signer{KeyID: old.KeyID, Secret: changed.Secret}, log
}

func (g *testedGate) failures(id string) int {
	g.t.Helper()
	view, err := g.keys.Show(g.t.Context(), id)
	if err != nil {
		g.t.Fatal(err)
	}
	return view.Failures
}

// broken changes the headers of a signed request.
var broken = map[string]func(*http.Request){
	"nothing":        func(*http.Request) {},
	"the signature":  func(r *http.Request) { r.Header.Set("X-Signature", auth.EmptyBodyHash) },
	"the body's sum": func(r *http.Request) { r.Header.Set("X-Body-Hash", auth.BodyHash([]byte("another"))) },
}

// A client that still signs with a retired secret is refused with the published
// answer. It does not lock the key for clients with the new secret, and the log
// names its secret.
func TestRetiredSecretDoesNotLock(t *testing.T) {
	g, old, fresh, log := rotated(t)
	stranger := &sign.Signer{KeyID: old.KeyID, Secret: "a secret of nobody, of 32 bytes."}
	wrong := g.get(stranger, "192.0.2.1", broken["nothing"])
	if n := g.failures(old.KeyID); wrong.Code != http.StatusUnauthorized || n != 1 {
		t.Fatalf("a stranger: %d, %d failures", wrong.Code, n)
	}
	for range g.auth.site.settings.LockAfter + 2 {
		w := g.get(old, "192.0.2.1", broken["nothing"])
		if w.Code != wrong.Code || w.Body.String() != wrong.Body.String() {
			t.Fatalf("%d %s, a stranger gets %d %s", w.Code, w.Body, wrong.Code, wrong.Body)
		}
	}
	if n := g.failures(old.KeyID); n != 1 {
		t.Errorf("%d failures, want those of the stranger alone", n)
	}
	line := log.All()[log.Len()-1].ContextMap()
	if detail, _ := line["detail"].(string); !strings.HasPrefix(detail, "the client still signs with secret version 1, retired at 20") {
		t.Errorf("logged %v", line)
	}
	if detail, _ := log.All()[0].ContextMap()["detail"].(string); strings.Contains(detail, "secret version") {
		t.Errorf("logged of a stranger: %v", log.All()[0].ContextMap())
	}
	if w := g.get(fresh, "192.0.2.1", broken["nothing"]); w.Code != http.StatusNoContent {
		t.Errorf("the new secret: %d %s", w.Code, w.Body)
	}
}

// A failure that is not correctly signed with the retired secret counts. A wrong
// body hash counts with a retired secret too, as it does with a live one.
func TestRetiredSecretCountsWhatALiveOneCounts(t *testing.T) {
	g, old, fresh, _ := rotated(t)
	wrongHash := func(by *sign.Signer) func(*http.Request) {
		return func(r *http.Request) {
			if err := by.Sign(r, []byte("another body")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, change := range []func(*http.Request){broken["the signature"], broken["the body's sum"], wrongHash(old), wrongHash(fresh)} {
		by := old
		if w := g.get(by, "192.0.2.1", change); w.Code != http.StatusUnauthorized {
			t.Errorf("%d: %d", i, w.Code)
		}
		if n := g.failures(old.KeyID); n != i+1 {
			t.Errorf("%d: %d failures, want %d", i, n, i+1)
		}
	}
}

// Rule 5 is as published: when strangers have reached the threshold, the next
// request locks the key, even if it is signed with a retired secret.
func TestRetiredSecretMeetsTheLock(t *testing.T) {
	g, old, fresh, _ := rotated(t)
	for range g.auth.site.settings.LockAfter {
		g.get(old, "192.0.2.1", broken["the signature"])
	}
	for _, c := range []struct {
		by   *sign.Signer
		want auth.Reason
	}{{old, auth.KeyLocked}, {old, auth.KeyDisabled}, {fresh, auth.KeyDisabled}} {
		if w := g.get(c.by, "192.0.2.1", broken["nothing"]); !strings.Contains(w.Body.String(), c.want.Message()) {
			t.Errorf("%s, want %s", w.Body, c.want)
		}
	}
}
