package caddymodule

import (
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A chainWalk collects the handlers that may get a request after one handler
// of a server. Caddy provisions a handler before those behind it, so the walk
// is done when all of them exist: before the first request is judged.
type chainWalk struct {
	server *caddyhttp.Server
	from   caddyhttp.MiddlewareHandler
	behind []caddyhttp.MiddlewareHandler
	depth  int
}

// maxRouteDepth bounds the walk through named routes that invoke each other.
const maxRouteDepth = 32

// handlersBehind returns the handlers that may get a request after the given
// one, in their order.
func handlersBehind(server *caddyhttp.Server, from caddyhttp.MiddlewareHandler) []caddyhttp.MiddlewareHandler {
	if server == nil {
		return nil
	}
	w := &chainWalk{server: server, from: from}
	if !w.find(server.Routes) {
		for _, route := range server.NamedRoutes {
			w.find(caddyhttp.RouteList{*route})
		}
	}
	return w.behind
}

// find reports whether the handler is in the routes. If so, it has collected
// every handler behind it.
func (w *chainWalk) find(routes caddyhttp.RouteList) bool {
	for i := range routes {
		route := &routes[i]
		for j, handler := range route.Handlers {
			if handler != w.from && !w.findIn(handler) {
				continue
			}
			w.collectHandlers(route.Handlers[j+1:])
			if !route.Terminal {
				w.collectSiblings(routes[i+1:], route.Group)
			}
			return true
		}
	}
	return false
}

// findIn reports whether the handler is in the routes inside of another one.
func (w *chainWalk) findIn(handler caddyhttp.MiddlewareHandler) bool {
	w.depth++
	defer func() { w.depth-- }()
	return w.depth < maxRouteDepth && w.find(w.nested(handler))
}

// collectSiblings collects the handlers of routes that may run after one of the
// group. Of the routes of a group only the first that matches runs.
func (w *chainWalk) collectSiblings(routes caddyhttp.RouteList, group string) {
	for i := range routes {
		if group == "" || routes[i].Group != group {
			w.collectHandlers(routes[i].Handlers)
		}
	}
}

func (w *chainWalk) collectHandlers(handlers []caddyhttp.MiddlewareHandler) {
	for _, handler := range handlers {
		w.behind = append(w.behind, handler)
		w.depth++
		if w.depth < maxRouteDepth {
			w.collectSiblings(w.nested(handler), "")
		}
		w.depth--
	}
}

// nested returns the routes inside a handler.
func (w *chainWalk) nested(handler caddyhttp.MiddlewareHandler) caddyhttp.RouteList {
	switch h := handler.(type) {
	case *caddyhttp.Subroute:
		return h.Routes
	case *caddyhttp.Invoke:
		if route, named := w.server.NamedRoutes[h.Name]; named {
			return caddyhttp.RouteList{*route}
		}
	}
	return nil
}
