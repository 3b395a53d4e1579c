// Package routes finds which handlers of a Caddy server may handle a request
// before another handler, and which behind it. Begin with [Walk].
package routes

import (
	"errors"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A Walk follows requests through the routes of a server, with all named routes,
// subroutes, error routes and routes for responses, whether their handlers are
// loaded or still JSON. Of the matchers it evaluates host and path, and `not` of
// these; every other matcher may match or not.
type Walk struct {
	Server *caddyhttp.Server

	// Visit is called for each handler in the order in which requests pass them, with
	// what may reach it, if anything. A handler of a named route is another step each
	// time that the route is invoked.
	Visit func(s *Step, flows []Flow)

	// Note reports whether flows remember that they have passed a step.
	Note func(s *Step) bool

	past   bool   // follow requests past handlers that answer
	site   string // of the route
	depth  int
	passed int    // by flows, in all
	ended  []Flow // without an answer
}

// A Flow is a class of requests that have passed the same noted steps.
type Flow struct {
	Passed []Passed // in their order
	Failed bool     // a handler has returned an error: these are error routes, or behind them
	Unsure int      // how many conditions were taken for true or for false that are not evaluated

	requests region
	groups   []string // whose route was taken: of each group only the first that matches runs
	changes  changes
}

// Passed is a noted step that requests have passed.
type Passed struct {
	*Step
	Unsure int // of the flow at that moment
}

// The bounds of a walk. Named routes may invoke each other, also in a loop.
const (
	maxDepth  = 32
	maxPassed = 200_000
)

var errTooMany = errors.New("the routes of a server have too many matchers for the order of their handlers to be checked; write fewer matchers that overlap")

// Routes follows every request of the server. It returns the flows that reach
// the end of the routes without an answer.
func (w *Walk) Routes() (unanswered []Flow, err error) {
	rest := w.list(w.Server.Routes, []Flow{{}})
	if w.Server.Errors != nil {
		rest = append(rest, w.list(w.Server.Errors.Routes, []Flow{{Failed: true}})...)
	}
	if w.passed > maxPassed {
		return nil, errTooMany
	}
	return append(w.ended, rest...), nil
}

// Behind returns the handlers that are behind the given one, even if one between
// them always answers. All handlers must be loaded.
func Behind(server *caddyhttp.Server, from caddyhttp.MiddlewareHandler) (behind []caddyhttp.MiddlewareHandler) {
	if server == nil {
		return nil
	}
	found := false
	w := &Walk{
		Server: server,
		past:   true,
		Note:   func(s *Step) bool { return s.Loaded == from },
		Visit: func(s *Step, flows []Flow) {
			found = found || s.Loaded == from
			after := func(f Flow) bool { return len(f.Passed) > 0 }
			if slices.ContainsFunc(flows, after) && !slices.Contains(behind, s.Loaded) {
				behind = append(behind, s.Loaded)
			}
		},
	}
	_, _ = w.Routes() // a server with too many matchers was refused
	for _, route := range server.NamedRoutes {
		if !found { // the handler that invokes it is not known
			w.list(caddyhttp.RouteList{*route}, []Flow{{}})
		}
	}
	return behind
}

// list follows flows through routes. It returns those that pass all of them.
func (w *Walk) list(routes caddyhttp.RouteList, flows []Flow) []Flow {
	if w.depth++; w.depth > maxDepth {
		w.depth--
		return nil
	}
	defer func() { w.depth-- }()
	for i := range routes {
		flows = w.route(&routes[i], flows)
	}
	return flows
}

// route follows flows through a route and past it.
func (w *Walk) route(route *caddyhttp.Route, flows []Flow) (after []Flow) {
	sets := conditionsOf(route)
	outer := w.site
	defer func() { w.site = outer }()
	if w.site == "" {
		w.site = hostsOf(sets)
	}
	var entering []Flow
	for _, f := range flows {
		if w.passed++; w.passed > maxPassed {
			return nil
		}
		if route.Group != "" && slices.Contains(f.groups, route.Group) {
			after = append(after, f)
			continue
		}
		if route.Group != "" && f.Failed {
			after = append(after, f) // the group may have been satisfied before the error
		}
		entering = append(entering, f.enter(sets, route.Group)...)
		if past, possible := f.pass(sets); possible {
			after = append(after, past)
		}
	}
	through := w.handlers(stepsOf(route), entering)
	switch {
	case route.Terminal:
		w.ended = append(w.ended, through...)
		return after
	case route.Group == "" && unchanged(entering, through):
		// Whether the route matches makes no difference to what has been passed.
		return changed(flows, through)
	default:
		return append(after, through...)
	}
}

// unchanged reports whether flows have passed handlers of which none is noted and
// none answers.
func unchanged(before, after []Flow) bool {
	return slices.EqualFunc(before, after, func(b, a Flow) bool {
		return len(b.Passed) == len(a.Passed) && b.Failed == a.Failed &&
			len(b.groups) == len(a.groups) && len(b.requests.in)+len(b.requests.out) == len(a.requests.in)+len(a.requests.out)
	})
}

// changed returns the flows with all changes that requests of theirs may have had.
func changed(flows, through []Flow) []Flow {
	flows = slices.Clone(flows)
	for i := range flows {
		for _, f := range through {
			flows[i].changes = flows[i].changes.or(f.changes)
		}
	}
	return flows
}

// handlers follows flows through the handlers of a route.
func (w *Walk) handlers(steps []*Step, flows []Flow) []Flow {
	for _, s := range steps {
		if w.passed++; w.passed > maxPassed {
			return nil
		}
		s.Site = w.site
		w.Visit(s, flows)
		noted := w.Note(s)
		flows = slices.Clone(flows)
		for i := range flows {
			f := &flows[i]
			if noted {
				f.Passed = append(slices.Clip(f.Passed), Passed{s, f.Unsure})
			}
			f.changes = f.changes.after(s)
		}
		flows = w.inside(s, flows)
	}
	return flows
}

// inside follows flows through the routes inside of a step. It returns those that
// reach the next one.
func (w *Walk) inside(s *Step, flows []Flow) []Flow {
	switch s.Name {
	case "invoke":
		if route, named := w.Server.NamedRoutes[s.invokes()]; named {
			return w.list(caddyhttp.RouteList{*route}, flows)
		}
		return nil // Caddy answers 500
	case "subroute":
		routes, failed := s.subroute()
		after := w.list(routes, flows)
		if failed != nil {
			after = append(after, w.list(failed, failing(flows))...)
		}
		return after
	}
	var after []Flow
	for _, routes := range s.nested() {
		after = append(after, w.list(routes, flows)...)
	}
	switch {
	case w.past:
		return append(after, flows...)
	case s.Name == "reverse_proxy":
		return after // the routes for a response may go on, as those of forward_auth
	case s.answers():
		return nil
	default:
		return flows
	}
}

// failing returns the flows after an error of some handler: how far they had come
// is unknown.
func failing(flows []Flow) []Flow {
	flows = slices.Clone(flows)
	for i := range flows {
		flows[i].Failed = true
	}
	return flows
}
