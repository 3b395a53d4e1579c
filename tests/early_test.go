//go:build go1.27

package tests

import (
	"net/http"
	"testing"
	"time"
)

// TestRefusalDoesNotWait sends requests that are refused without their body,
// and never the end of it: the answer comes at once.
func TestRefusalDoesNotWait(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	g := startGateway(t, site{upstream: u.addr})
	key := g.newKey(nil)
	outside := g.newKey(fields{"allowed_ips": []string{"203.0.113.7"}})
	for name, r := range map[string]*request{
		"missing header": key.post().drop("X-Nonce"),
		"unknown key":    credentials{"nobody", "x"}.post(),
		"late":           key.requestAt(time.Now().Add(-time.Hour), "POST", "/api/v1/cards", `{"a":1}`),
		"outside":        outside.post(),
		"target":         key.request("POST", "/api/v1//cards", `{"a":1}`),
		"method":         key.request("PROPFIND", "/api/v1/cards", `{"a":1}`),
		"in chunks":      chunked(key.post().drop("X-Nonce")),
	} {
		w := g.connect(t)
		_ = w.SetDeadline(time.Now().Add(patience / 2)) // Caddy itself gives up after a minute
		w.write(t, r.head()+r.body[:3])
		got, err := w.receive(r.method)
		if err != nil || got.status < 400 {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		// The connection is still good when the body has come.
		w.write(t, r.body[3:])
		if got, err = w.exchange(key.get()); err != nil || got.status != http.StatusOK {
			t.Errorf("%s, then another request: %v, %v", name, got, err)
		}
	}
}
