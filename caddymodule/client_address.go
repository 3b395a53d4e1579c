package caddymodule

import (
	"errors"
	"net/http"
	"net/netip"
	"reflect"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
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
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted && addr == peerAddress(r) {
		return text, netip.Addr{}
	}
	return text, addr
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
