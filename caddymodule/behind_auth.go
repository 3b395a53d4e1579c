package caddymodule

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// behind is what follows a card_auth in its site.
type behind struct {
	translates   bool          // a card_translate: bodies of customers must be JSON
	mayRepeat    bool          // a handler that may send a request twice
	forwardsHost bool          // a reverse_proxy that lets clients choose the issuer's Host
	rules        []*HeaderRule // of each card_forward
}

// behindAuth returns what is behind a card_auth of a server. If only card_forward
// can send a request, mayRepeat is false, and card_auth need not prevent that the
// request is sent twice.
func behindAuth(server *caddyhttp.Server, from caddyhttp.MiddlewareHandler) behind {
	var b behind
	for _, handler := range handlersBehind(server, from) {
		switch next := handler.(type) {
		case *Translate:
			b.translates = true
		case *Forward:
			b.rules = append(b.rules, &next.HeaderRule)
		case *reverseproxy.Handler:
			b.mayRepeat = true
			b.forwardsHost = b.forwardsHost || forwardsHost(next)
		default:
			b.mayRepeat = b.mayRepeat || !sendsNothing(handler)
		}
	}
	b.mayRepeat = b.mayRepeat || len(b.rules) == 0
	return b
}

// quietHandlers are handlers of Caddy's that send no request anywhere.
var quietHandlers = []string{
	"subroute", "invoke", "encode", "headers", "rewrite", "vars", "map", "static_response", "error", "request_body",
	"tracing", "log_append", "metrics",
}

// sendsNothing reports whether a handler is known to send no request.
func sendsNothing(handler any) bool {
	module, ok := handler.(caddy.Module)
	if !ok {
		return false
	}
	name, _ := strings.CutPrefix(string(module.CaddyModule().ID), "http.handlers.")
	return strings.HasPrefix(name, "card_") || slices.Contains(quietHandlers, name)
}

const forwardedHostWarning = "the reverse_proxy behind card_auth sends the issuer the Host that the client wrote, which nobody has signed; add header_up Host {upstream_hostport} to it, or header_up Host {host} where the issuer needs the client's"

// forwardsHost reports whether a reverse proxy sends the client's Host to the
// upstream although its configuration does not set Host. Over TLS Caddy sends
// the name of the upstream.
func forwardsHost(proxy *reverseproxy.Handler) bool {
	if transport, ok := proxy.Transport.(*reverseproxy.HTTPTransport); ok && transport.TLSEnabled() {
		return false
	}
	if proxy.Headers == nil || proxy.Headers.Request == nil {
		return true
	}
	isHost := func(name string) bool { return strings.EqualFold(name, "Host") }
	ops := proxy.Headers.Request
	for name := range ops.Set {
		if isHost(name) {
			return false
		}
	}
	return !slices.ContainsFunc(ops.Delete, isHost)
}
