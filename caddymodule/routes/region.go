package routes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A region is a set of requests: those that all conditions of in let in, and none
// of out.
type region struct{ in, out []condition }

// A condition is a matcher set.
type condition struct {
	paths, hosts []string    // patterns, one of which must match; nil: any
	others       []string    // matchers that are not evaluated, as text
	not          []condition // must not match
}

// Reaches reports whether a request whose path matches the pattern may be among
// those of the flow.
func (f *Flow) Reaches(pattern string) bool {
	r := f.requests
	r.in = append(slices.Clip(r.in), condition{paths: []string{pattern}})
	return r.possible()
}

// Names reports whether a path matcher that has let the flow in begins with the
// prefix.
func (f *Flow) Names(prefix string) bool {
	return slices.ContainsFunc(f.requests.in, func(c condition) bool {
		return slices.ContainsFunc(c.paths, func(p string) bool { return strings.HasPrefix(p, prefix) })
	})
}

// enter returns the flows that a route with the conditions lets in: one for each of
// its matcher sets.
func (f *Flow) enter(sets []condition, group string) (inside []Flow) {
	if len(sets) == 0 {
		sets = []condition{{}}
	}
	for _, set := range sets {
		set = f.now(set)
		in := *f
		if group != "" {
			in.groups = append(slices.Clip(f.groups), group)
		}
		in.requests.in = append(slices.Clip(f.requests.in), set)
		in.requests.out = append(slices.Clip(f.requests.out), set.not...)
		in.Unsure += set.unsure()
		if in.requests.possible() {
			inside = append(inside, in)
		}
	}
	return inside
}

// pass returns what is left of a flow after a route with the conditions did not let
// it in, and whether that is possible.
func (f *Flow) pass(sets []condition) (Flow, bool) {
	past := *f
	past.requests.out = slices.Clip(f.requests.out)
	for _, set := range sets {
		set = f.now(set)
		past.requests.out = append(past.requests.out, set)
		past.Unsure += set.unsure()
	}
	return past, len(sets) > 0 && past.requests.possible()
}

// now returns the condition as requests of the flow meet it. After a handler that
// may have changed requests, a matcher is not the one it was before, and after a
// rewrite a path is not the one that the client has sent.
func (f *Flow) now(set condition) condition {
	c := f.changes
	if c.count == 0 {
		return set
	}
	others := set.others
	if c.path && (set.paths != nil || set.not != nil) {
		others = append(slices.Clip(others), fmt.Sprint(set.paths, set.not))
		set.paths, set.not = nil, nil
	}
	if c.host && set.hosts != nil {
		others = append(slices.Clip(others), fmt.Sprint(set.hosts))
		set.hosts = nil
	}
	set.others = make([]string, len(others))
	for i, other := range others {
		set.others[i] = strconv.Itoa(c.count) + other
	}
	return set
}

// hostsOf returns the hosts of all conditions, separated by blanks.
func hostsOf(sets []condition) string {
	var hosts []string
	for _, set := range sets {
		hosts = append(hosts, set.hosts...)
	}
	return strings.Join(hosts, " ")
}

// unsure returns 1 for a condition that is not evaluated whole, else 0.
func (c *condition) unsure() int {
	if len(c.others) > 0 || slices.ContainsFunc(c.not, func(n condition) bool { return n.unsure() > 0 }) {
		return 1
	}
	return 0
}

// possible reports whether the region may have a request. It returns true where it
// cannot know.
func (r *region) possible() bool { return r.choose(0, choice{}) }

// A choice is one pattern of each condition that lets requests in.
type choice struct{ paths, hosts, others []string }

func (r *region) choose(i int, chosen choice) bool {
	if i == len(r.in) {
		return !slices.ContainsFunc(r.out, chosen.within)
	}
	c := &r.in[i]
	chosen.others = append(slices.Clip(chosen.others), c.others...)
	for _, path := range orAny(c.paths) {
		for _, host := range orAny(c.hosts) {
			if apart(path, chosen.paths, pathsOverlap) || apart(host, chosen.hosts, hostsOverlap) {
				continue
			}
			next := chosen
			if path != "" {
				next.paths = append(slices.Clip(chosen.paths), path)
			}
			if host != "" {
				next.hosts = append(slices.Clip(chosen.hosts), host)
			}
			if r.choose(i+1, next) {
				return true
			}
		}
	}
	return false
}

// orAny returns the patterns, or one that is empty and stands for any.
func orAny(patterns []string) []string {
	if patterns == nil {
		return []string{""}
	}
	return patterns
}

// apart reports whether a pattern has nothing in common with one of the others.
func apart(pattern string, others []string, overlap func(a, b string) bool) bool {
	return pattern != "" && slices.ContainsFunc(others, func(other string) bool { return !overlap(pattern, other) })
}

// within reports whether every request of the choice meets the condition.
func (c choice) within(set condition) bool {
	covered := func(patterns, chosen []string, covers func(a, b string) bool) bool {
		return patterns == nil || slices.ContainsFunc(patterns, func(p string) bool {
			return slices.ContainsFunc(chosen, func(q string) bool { return covers(p, q) })
		})
	}
	known := func(other string) bool { return slices.Contains(c.others, other) }
	return covered(set.paths, c.paths, pathCovers) && covered(set.hosts, c.hosts, hostCovers) &&
		!slices.ContainsFunc(set.others, func(other string) bool { return !known(other) }) &&
		!slices.ContainsFunc(set.not, func(n condition) bool { return !c.without(n) })
}

// without reports whether no request of the choice meets the condition.
func (c choice) without(set condition) bool {
	none := func(patterns, chosen []string, overlap func(a, b string) bool) bool {
		return patterns != nil && !slices.ContainsFunc(patterns, func(p string) bool { return !apart(p, chosen, overlap) })
	}
	return none(set.paths, c.paths, pathsOverlap) || none(set.hosts, c.hosts, hostsOverlap)
}

// conditionsOf returns the matcher sets of a route, loaded or not.
func conditionsOf(route *caddyhttp.Route) []condition {
	return conditions(route.MatcherSets, route.MatcherSetsRaw)
}

func conditions(loaded []caddyhttp.MatcherSet, raw []caddy.ModuleMap) (sets []condition) {
	for _, set := range loaded {
		var c condition
		for _, matcher := range set {
			c.add(matcher)
		}
		sets = append(sets, c)
	}
	for _, set := range raw {
		var c condition
		for name, options := range set {
			c.addRaw(name, options)
		}
		slices.Sort(c.others)
		sets = append(sets, c)
	}
	return sets
}

func (c *condition) add(matcher any) {
	switch m := matcher.(type) {
	case *caddyhttp.MatchPath:
		c.addPaths(*m)
	case *caddyhttp.MatchHost:
		c.addHosts(*m)
	case *caddyhttp.MatchNot:
		c.not = append(c.not, conditions(m.MatcherSets, m.MatcherSetsRaw)...)
	default:
		text, err := json.Marshal(m)
		if err != nil {
			text = fmt.Appendf(nil, "%p", m)
		}
		name := strings.TrimPrefix(Name(m), "http.matchers.")
		c.others = append(c.others, name+string(text))
	}
	slices.Sort(c.others)
}

func (c *condition) addRaw(name string, options json.RawMessage) {
	var patterns []string
	var not []caddy.ModuleMap
	switch {
	case name == "path" && json.Unmarshal(options, &patterns) == nil:
		c.addPaths(patterns)
	case name == "host" && json.Unmarshal(options, &patterns) == nil:
		c.addHosts(patterns)
	case name == "not" && json.Unmarshal(options, &not) == nil:
		c.not = append(c.not, conditions(nil, not)...)
	default:
		c.others = append(c.others, name+string(options))
	}
}

func (c *condition) addPaths(patterns []string) {
	c.paths = lower(patterns)
}

func (c *condition) addHosts(patterns []string) {
	c.hosts = lower(patterns)
}

func lower(patterns []string) []string {
	all := make([]string, len(patterns))
	for i, p := range patterns {
		all[i] = strings.ToLower(p)
	}
	return all
}
