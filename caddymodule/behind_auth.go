package caddymodule

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/card-gateway/card-gateway/caddymodule/routes"
)

// behind is what follows a card_auth in its site.
type behind struct {
	translates   bool          // a card_translate: bodies of customers must be JSON
	mayRepeat    bool          // a handler that may send a request twice
	forwardsHost bool          // a reverse_proxy that lets clients choose the issuer's Host
	rules        []*HeaderRule // of each card_forward
	self         bool          // a card_self
	answersOwn   bool          // a card_self, and nothing that could send a request to an issuer
	proxies      bool          // a reverse_proxy
	unasserted   string        // why no assertion can vouch for what is sent; empty: it can
}

// behindAuth returns what is behind a card_auth of a server. If only card_forward
// can send a request, mayRepeat is false, and card_auth need not prevent that the
// request is sent twice.
func behindAuth(server *caddyhttp.Server, from caddyhttp.MiddlewareHandler) behind {
	var b behind
	sends := false
	handlers := routes.Behind(server, from)
	for _, handler := range handlers {
		switch next := handler.(type) {
		case *Translate:
			b.translates = true
		case *Self:
			b.self = true
		case *Forward:
			sends = true
			b.rules = append(b.rules, &next.HeaderRule)
		case *reverseproxy.Handler:
			sends, b.mayRepeat, b.proxies = true, true, true
			b.forwardsHost = b.forwardsHost || forwardsHost(next)
		default:
			b.mayRepeat = b.mayRepeat || !sendsNothing(handler)
		}
	}
	b.answersOwn = b.self && !sends && !b.mayRepeat
	b.mayRepeat = b.mayRepeat || len(b.rules) == 0 && !b.answersOwn
	b.unasserted = unasserted(handlers)
	return b
}

// unasserted returns why an assertion could lie or be missing, or "". card_forward
// makes the assertion of what it sends. With reverse_proxy it is made before, so no
// handler may change the method, the target or the body after card_auth.
func unasserted(handlers []caddyhttp.MiddlewareHandler) string {
	proxies := slices.ContainsFunc(handlers, func(handler caddyhttp.MiddlewareHandler) bool {
		_, is := handler.(*reverseproxy.Handler)
		return is
	})
	for _, handler := range handlers {
		name := routes.Name(handler)
		switch next := handler.(type) {
		case *Forward:
		case *reverseproxy.Handler:
			if next.Rewrite != nil {
				return "assert: the reverse_proxy behind card_auth rewrites what it sends, so that an assertion would lie; use card_forward"
			}
		default:
			if !sendsNothing(handler) {
				return "assert: the handler " + name + " behind card_auth may send requests without an assertion; use card_forward"
			}
			if proxies && (name == "rewrite" || name == "request_body") {
				return "assert: the handler " + name + " between card_auth and reverse_proxy may change the request, so that an assertion would lie; put it before card_auth, or use card_forward"
			}
		}
	}
	return ""
}

// quietHandlers are handlers of Caddy's that send no request anywhere.
var quietHandlers = []string{
	"subroute", "invoke", "encode", "headers", "rewrite", "vars", "map", "static_response", "error", "request_body",
	"tracing", "log_append", "metrics",
}

// sendsNothing reports whether a handler is known to send no request.
func sendsNothing(handler any) bool {
	name := routes.Name(handler)
	return strings.HasPrefix(name, "card_") || slices.Contains(quietHandlers, name)
}

const sharedSelfWarning = "card_self is closed, because a handler that may send requests to an issuer is behind the same card_auth; give card_self a handle block and a card_auth of its own"

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
