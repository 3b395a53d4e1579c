package caddymodule

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A step is a handler of a server's routes. Caddy loads the handlers one by one.
// Those that are not loaded yet are JSON.
type step struct {
	name   string                      // the module's name without http.handlers
	loaded caddyhttp.MiddlewareHandler // nil: raw is it
	raw    json.RawMessage
	paths  []string // the patterns of the innermost path matcher around it
}

// An earlier step may handle a request before another one does.
type earlier struct {
	*step
	maybe bool // only a request that some matcher of its own lets in
	apart bool // the later step has a matcher that the earlier one has not
}

// stepWalk visits the routes of a server in the order in which a request passes
// them.
type stepWalk struct {
	server *caddyhttp.Server
	visit  func(s *step, before []earlier)
	depth  int
}

// gain is what a route adds for later ones.
type gain struct {
	group string
	steps []earlier
}

// routes visits the handlers of the routes. It returns those that may have
// handled a request which passes all of them, and whether none passes.
func (w *stepWalk) routes(list caddyhttp.RouteList, before []earlier, paths []string) (after []earlier, ends bool) {
	if w.depth++; w.depth > maxRouteDepth {
		return before, false
	}
	defer func() { w.depth-- }()
	var gained []gain
	for i := range list {
		route := &list[i]
		matched, within := matchers(route, paths)
		known := passed(before, gained, route.Group)
		for j := range known {
			known[j].apart = known[j].apart || matched
		}
		own, answered := w.handlers(route, known, within)
		if answered || route.Terminal {
			ends = ends || !matched
			continue // no later route gets what this one has handled
		}
		for j := range own {
			own[j].maybe = own[j].maybe || matched
		}
		gained = append(gained, gain{route.Group, own})
	}
	return passed(before, gained, ""), ends
}

// passed returns the handlers that may have handled a request before a route of
// the group. Only one route of a group runs.
func passed(before []earlier, gained []gain, group string) []earlier {
	all := slices.Clone(before)
	for _, g := range gained {
		if group == "" || g.group != group {
			all = append(all, g.steps...)
		}
	}
	return all
}

// handlers visits the handlers of a route. It returns those that it has added,
// and whether one of them always answers.
func (w *stepWalk) handlers(route *caddyhttp.Route, before []earlier, paths []string) (added []earlier, ends bool) {
	known := len(before)
	for _, s := range stepsOf(route) {
		s.paths = paths
		w.visit(s, before)
		var answered bool
		before, answered = w.routes(w.inside(s), append(before, earlier{step: s}), paths)
		ends = ends || answered || s.answers()
	}
	return before[known:], ends
}

// inside returns the routes inside a step.
func (w *stepWalk) inside(s *step) caddyhttp.RouteList {
	var nested struct {
		Routes caddyhttp.RouteList `json:"routes"`
		Name   string              `json:"name"`
	}
	switch h := s.loaded.(type) {
	case nil:
		_ = json.Unmarshal(s.raw, &nested) // Caddy itself reports what is wrong
	case *caddyhttp.Subroute:
		nested.Routes = h.Routes
	case *caddyhttp.Invoke:
		nested.Name = h.Name
	}
	if s.name == "invoke" {
		if route, named := w.server.NamedRoutes[nested.Name]; named {
			return caddyhttp.RouteList{*route}
		}
	}
	return nested.Routes
}

// stepsOf returns the handlers of a route, loaded or not.
func stepsOf(route *caddyhttp.Route) (steps []*step) {
	for _, handler := range route.Handlers {
		s := &step{loaded: handler}
		if module, ok := handler.(caddy.Module); ok {
			s.name = strings.TrimPrefix(string(module.CaddyModule().ID), "http.handlers.")
		}
		steps = append(steps, s)
	}
	if len(steps) > 0 {
		return steps
	}
	for _, raw := range route.HandlersRaw {
		var named struct {
			Handler string `json:"handler"`
		}
		_ = json.Unmarshal(raw, &named)
		steps = append(steps, &step{name: named.Handler, raw: raw})
	}
	return steps
}

// answers reports whether a request that this handler handles never reaches a
// later one.
func (s *step) answers() bool {
	switch s.name {
	case "card_forward", "card_self", "card_refuse", "card_health", "card_jwks", "reverse_proxy", "static_response", "error", "metrics", "file_server":
		return true
	default:
		return false
	}
}

// matchers reports whether a route has matchers, and returns the patterns of its
// path matchers, else those around it.
func matchers(route *caddyhttp.Route, around []string) (matched bool, paths []string) {
	for _, set := range route.MatcherSets {
		for _, matcher := range set {
			if m, ok := matcher.(*caddyhttp.MatchPath); ok {
				paths = append(paths, *m...)
			}
			matched = true
		}
	}
	for _, set := range route.MatcherSetsRaw {
		for name, raw := range set {
			var patterns []string
			if name == "path" && json.Unmarshal(raw, &patterns) == nil {
				paths = append(paths, patterns...)
			}
			matched = true
		}
	}
	if paths == nil {
		paths = around
	}
	return matched, paths
}
