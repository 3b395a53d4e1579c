//go:build go1.27

package request

import (
	"net/http"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestRefusalDoesNotWait sends requests that are refused without their body, and
// never sends the end of it: the answer arrives at once.
func TestRefusalDoesNotWait(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	outside := g.NewKey(harness.Fields{"allowed_ips": []string{"203.0.113.7"}})
	for name, r := range map[string]*harness.Request{
		"missing header": key.Post().Drop("X-Nonce"),
		"unknown key":    harness.Credentials{ID: "nobody", Secret: "x"}.Post(),
		"late":           key.RequestAt(time.Now().Add(-time.Hour), "POST", "/api/v1/cards", `{"a":1}`),
		"outside":        outside.Post(),
		"target":         key.Request("POST", "/api/v1//cards", `{"a":1}`),
		"method":         key.Request("PROPFIND", "/api/v1/cards", `{"a":1}`),
		"in chunks":      chunked(key.Post().Drop("X-Nonce")),
	} {
		w := g.Connect(t)
		_ = w.SetDeadline(time.Now().Add(harness.Patience / 2)) // Caddy itself stops waiting after a minute
		w.WriteText(t, r.Head()+r.Body[:3])
		got, err := w.Receive(r.Method)
		if err != nil || got.Status < 400 {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		if r.Value("Transfer-Encoding") != "" {
			continue // it ends its connection
		}
		// The connection can still be used after the body has arrived.
		w.WriteText(t, r.Body[3:])
		if got, err = w.Exchange(key.Get()); err != nil || got.Status != http.StatusOK {
			t.Errorf("%s, then another request: %v, %v", name, got, err)
		}
	}
}
