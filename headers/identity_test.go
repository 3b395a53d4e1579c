package headers

import (
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Of all names, exactly those that a backend may fold into an identity header
// are dropped.
func TestIdentityHeadersAreDropped(t *testing.T) {
	for _, name := range []string{"X-Gateway-Tenant", "X-Gateway", "x_gateway_key_id", "-X-Gateway-Scopes", "XGateway-A", "X--Gate.way-"} {
		for _, spelling := range spellings(name) {
			h := http.Header{spelling: {"1"}}
			if DropIdentity(h); len(h) > 0 {
				t.Errorf("%s stays", spelling)
			}
		}
	}
	names := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.SampledFrom(strings.Fields("X x G g xg gateway GATEWAY ateway - _ . 7 a Tenant %")), 0, 8)
		return strings.Join(parts.Draw(t, "parts"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		name := names.Draw(t, "name")
		h := http.Header{name: {"1"}}
		if DropIdentity(h); isIdentity(name) != (len(h) == 0) {
			t.Fatalf("%q: %v are left", name, h)
		}
	})
}
