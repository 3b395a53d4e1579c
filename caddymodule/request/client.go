package request

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
)

// ClientAddress returns the address of the client as Caddy chose it, by the
// trusted proxies. The zero address passes no whitelist.
//
// If a trusted proxy names no address that can be read, Caddy chooses the
// proxy's own. That is not the client's, so addr is then zero: otherwise any
// client would pass a whitelist that contains the proxy.
func ClientAddress(r *http.Request) (text string, addr netip.Addr) {
	text, _ = caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return text, netip.Addr{}
	}
	addr = addr.WithZone("").Unmap()
	if FromProxy(r) && addr == peerAddress(r) {
		return text, netip.Addr{}
	}
	return text, addr
}

// FromProxy reports whether a trusted proxy sent the request.
func FromProxy(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}

// CheckForwarded refuses a request of a trusted proxy if the client's entry in
// the header, or one right of it, is not an address or has a zone. Caddy skips
// the first and removes the zone of the second, so it may have chosen another
// address than the proxy meant.
func CheckForwarded(server *caddyhttp.Server, r *http.Request) *auth.Refusal {
	if server == nil || !FromProxy(r) {
		return nil
	}
	text, known := ClientAddress(r)
	chosen, _ := netip.ParseAddr(text)
	for _, name := range server.ClientIPHeaders {
		list := strings.Join(r.Header.Values(name), ",")
		if strings.TrimSpace(list) == "" {
			continue // the proxy names no client
		}
		for more := true; more; {
			comma := strings.LastIndexByte(list, ',')
			addr, ok := forwardedAddress(list[comma+1:])
			if !ok {
				return &auth.Refusal{
					Reason:  auth.MalformedRequest,
					Message: "A proxy on the way of the request wrote an address that cannot be read",
					Log:     name + " holds an entry that is no address or has a zone, at or right of the client's",
				}
			}
			if known.IsValid() && addr == chosen {
				return nil // the client wrote the entries left of it
			}
			if more = comma >= 0; more {
				list = list[:comma]
			}
		}
	}
	return nil
}

// forwardedAddress reads an entry as Caddy does: an address, with or without a
// port. It returns false for an address with a zone.
func forwardedAddress(entry string) (netip.Addr, bool) {
	host, _, err := net.SplitHostPort(entry)
	if err != nil {
		host = entry
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(host))
	return addr, err == nil && addr.Zone() == ""
}

// peerAddress returns the address at the other end of the connection.
func peerAddress(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().WithZone("").Unmap()
}

// TellClient writes the client's address, as Caddy chose it, into
// X-Forwarded-For, if a trusted proxy sent the request. The terminal handler
// appends the proxy's address. The values of client and proxies were removed
// before, unless pass_header names the header.
func TellClient(r *http.Request) {
	const name = "X-Forwarded-For"
	if _, passed := r.Header[name]; passed || !FromProxy(r) {
		return
	}
	if text, addr := ClientAddress(r); addr.IsValid() {
		r.Header[name] = []string{text}
	}
}
