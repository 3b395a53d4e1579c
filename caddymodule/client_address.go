package caddymodule

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
)

// clientAddress returns the address of the client as Caddy tells it, which
// knows the trusted proxies. The zero address passes no whitelist.
//
// Where a trusted proxy names no address that can be read, Caddy falls back to
// the proxy's own. That is not the client's, and must not pass a whitelist on
// which the proxy happens to be.
func clientAddress(r *http.Request) (text string, addr netip.Addr) {
	text, _ = caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return text, netip.Addr{}
	}
	addr = addr.WithZone("").Unmap()
	if fromProxy(r) && addr == peerAddress(r) {
		return text, netip.Addr{}
	}
	return text, addr
}

// fromProxy reports whether a trusted proxy sent the request.
func fromProxy(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}

// checkForwarded refuses a request on which a trusted proxy wrote, as the
// client's address or right of it, something that is no address or one with a
// zone. Caddy skips the first and cuts the second, so that the address which it
// chooses need not be the one that the proxy meant.
func checkForwarded(server *caddyhttp.Server, r *http.Request) *auth.Refusal {
	if server == nil || !fromProxy(r) {
		return nil
	}
	text, known := clientAddress(r)
	chosen, _ := netip.ParseAddr(text)
	for _, name := range server.ClientIPHeaders {
		list := strings.Join(r.Header.Values(name), ",")
		if strings.TrimSpace(list) == "" {
			continue // the proxy names nobody
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
				return nil // what is left of it, the client wrote
			}
			if more = comma >= 0; more {
				list = list[:comma]
			}
		}
	}
	return nil
}

// forwardedAddress reads an entry as Caddy does, a port being allowed, but none
// with a zone.
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

// checkTrustedProxies refuses a server where clients write the address
// themselves by which a whitelist judges them: without trusted_proxies_strict
// Caddy believes the left-most address of X-Forwarded-For, to which a load
// balancer only appends.
func checkTrustedProxies(server *caddyhttp.Server) error {
	if server == nil || server.TrustedProxiesStrict > 0 || !trustsProxies(server) {
		return nil
	}
	return errors.New("card_auth: trusted_proxies is set without trusted_proxies_strict, so that clients could choose the address that IP whitelists see; add the line trusted_proxies_strict to the servers block")
}

// trustsProxies reports whether a server has trusted proxies. Caddy has moved
// them to a field of its own by the time that handlers are provisioned, so only
// reflection sees them.
func trustsProxies(server *caddyhttp.Server) bool {
	field := reflect.ValueOf(server).Elem().FieldByName("trustedProxies")
	return server.TrustedProxiesUnix || field.IsValid() && !field.IsNil()
}
