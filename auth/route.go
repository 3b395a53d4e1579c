package auth

import "strings"

// A route is a pattern that leads to an operation.
type route struct {
	segments  []segment
	operation *Operation
	scope     string // that a request which matches needs
	shape     string // equal for patterns that match the same paths
}

// compareRoutes compares the leftmost segments of which one is a literal and
// the other a placeholder. The route with the literal comes first.
func compareRoutes(a, b route) int {
	for i := range a.segments {
		switch {
		case a.segments[i].placeholder == b.segments[i].placeholder:
		case b.segments[i].placeholder:
			return -1
		default:
			return 1
		}
	}
	return 0
}

// A path is refused when it matches a pattern only after folding (see fold.go).
// The gateway would take it for one operation, and a lenient server for another.
const faultFolds = "The path names an operation with something behind one of its segments (a ';', a blank, a dot or an extension); write the segment alone"

// foldsAway reports whether the folded path matches a route that comes before
// the exact one (nil: any route). A path that still holds a percent sign is
// also tried after decoding it once more.
func foldsAway(routes []route, exact *route, path string) bool {
	hidden := path
	if strings.IndexByte(path, '%') >= 0 {
		hidden = decodeHidden(path)
	}
	for i := range routes {
		r := &routes[i]
		if r == exact {
			return false
		}
		if r.matchesFolded(path, exact) || hidden != path && r.matchesFolded(hidden, exact) {
			return true
		}
	}
	return false
}

// matchesFolded reports whether the route matches a path whose segments are
// folded. A segment that is a literal of the exact route (which may be nil) was
// declared as it is written, and is not folded.
func (r *route) matchesFolded(path string, exact *route) bool {
	rest := path[1:]
	for i := range r.segments {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch s := &r.segments[i]; {
		case s.placeholder, equalFold(part, s.literal):
		case exact != nil && !exact.segments[i].placeholder:
			return false
		case !foldsTo(part, s.literal):
			return false
		}
	}
	return true
}
