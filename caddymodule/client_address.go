package caddymodule

import (
	"net/http"
	"net/netip"

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

// warnLeftmost says, once in the life of the configuration, that clients can
// write the address themselves by which a whitelist judges them: without
// trusted_proxies_strict Caddy believes the left-most one of X-Forwarded-For,
// to which a load balancer only appends.
func (a *App) warnLeftmost(r *http.Request) {
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); !trusted {
		return
	}
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server.TrustedProxiesStrict > 0 {
		return
	}
	a.leftmostOnce.Do(func() {
		a.log.Warn("trusted_proxies is set without trusted_proxies_strict: unless the load balancer replaces X-Forwarded-For, clients choose the address that IP whitelists see; add trusted_proxies_strict to the servers block")
	})
}
