package request

import (
	"net/http"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestIssuerCannotSayNotForwarded: a client repeats a POST after a 503 with
// X-Gateway-Forwarded: no, so an issuer that has executed it must not be able to
// send that, whichever handler forwards.
func TestIssuerCannotSayNotForwarded(t *testing.T) {
	harness.EachTerminal(t, func(t *testing.T, terminal string) {
		u := harness.StartUpstream(t)
		g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
		key := g.NewKey(nil)
		u.Replies(harness.Answer(http.StatusServiceUnavailable, "theirs", "X-Gateway-Forwarded: no", "x-gateway-forwarded: no", "Retry-After: 0"))
		got, err := g.Try(key.Get())
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != http.StatusServiceUnavailable || got.Body != "theirs" || got.Header.Values("X-Gateway-Forwarded") != nil {
			t.Errorf("the issuer's 503 arrives as %d %v %s", got.Status, got.Header, got.Body)
		}
		u.One(t)
	})
}
