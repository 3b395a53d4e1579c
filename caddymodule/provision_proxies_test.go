package caddymodule

import (
	"strings"
	"testing"
)

// Without trusted_proxies_strict clients choose the address that whitelists
// check, so card_auth refuses such a server.
func TestTrustedProxiesMustBeStrict(t *testing.T) {
	for _, c := range []struct {
		name    string
		servers string
		refused bool
	}{
		{"no proxy", "", false},
		{"strict", "servers {\ntrusted_proxies static 192.0.2.1\ntrusted_proxies_strict\n}", false},
		{"left-most", "servers {\ntrusted_proxies static 192.0.2.1\n}", true},
		{"left-most, over a unix socket", "servers {\ntrusted_proxies_unix\n}", true},
	} {
		config := configFrom(t, "file "+t.TempDir(), c.servers, "http://127.0.0.1:0 {\ncard_auth\nrespond 204\n}\n")
		err := validated(t, config)
		if c.refused && (err == nil || !strings.Contains(err.Error(), "add the line trusted_proxies_strict to the servers block")) || !c.refused && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	other := configFrom(t, "file "+t.TempDir(), "servers {\ntrusted_proxies static 192.0.2.1\n}", "http://127.0.0.1:0 {\nrespond 204\n}\n")
	if err := validated(t, other); err != nil {
		t.Errorf("a server without card_auth: %v", err)
	}
}
