package request

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// readAddress returns the address of an entry of X-Forwarded-For.
func readAddress(entry string) (netip.Addr, error) {
	if host, _, err := net.SplitHostPort(entry); err == nil {
		entry = host
	}
	return netip.ParseAddr(strings.TrimSpace(entry))
}

// FuzzForwarded: where a list of X-Forwarded-For passes, a reader that stops at
// the first entry it cannot read chooses the same client as one that skips such
// entries, as Caddy does.
func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{
		"", "203.0.113.7", "junk, 203.0.113.7", "203.0.113.7, junk", "203.0.113.7, 10.0.0.5%eth0", "203.0.113.7,", ",", "[2001:db8::7]:443,10.0.0.5", "::ffff:203.0.113.7", "10.0.0.5, 10.0.0.6",
		"203.0.113.7:80, 10.0.0.5", "203.0.113.7, [2001:db8::1", "203.0.113.7, _hidden, 10.0.0.5", "0x7f.1", "203.0.113.07", "198.51.100.9, 203.0.113.7, 10.0.0.5", "unknown", "10.0.0.4",
	} {
		f.Add(seed)
	}
	server := &caddyhttp.Server{ClientIPHeaders: []string{"X-Forwarded-For"}}
	trusted := netip.MustParsePrefix("10.0.0.0/8")
	f.Fuzz(func(t *testing.T, list string) {
		entries := strings.Split(list, ",")
		var lax, strict netip.Addr
		for i := len(entries) - 1; i >= 0 && !lax.IsValid(); i-- {
			if addr, err := readAddress(entries[i]); err == nil && !trusted.Contains(addr.Unmap()) {
				lax = addr.WithZone("")
			}
		}
		for i := len(entries) - 1; i >= 0 && !strict.IsValid(); i-- {
			addr, err := readAddress(entries[i])
			if err != nil || addr.Zone() != "" {
				break
			}
			if !trusted.Contains(addr.Unmap()) {
				strict = addr
			}
		}
		chosen := "10.0.0.4" // the proxy itself
		if lax.IsValid() {
			chosen = lax.String()
		}
		if CheckForwarded(server, behindProxy(chosen, true, list)) == nil && lax != strict {
			t.Fatalf("%q passes: Caddy chooses %s, a strict reader %s", list, lax, strict)
		}
	})
}
