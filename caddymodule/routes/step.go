package routes

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A Step is a handler in the routes of a server. Caddy loads the handlers one by
// one. Those that are not loaded yet are JSON.
type Step struct {
	Name   string                      // of the module, without http.handlers
	Loaded caddyhttp.MiddlewareHandler // nil: Raw is it
	Raw    json.RawMessage
	Site   string // the hosts of the first host matcher around it, separated by blanks; empty: any host
}

// Name returns the name of a handler's module, without http.handlers.
func Name(handler any) string {
	module, ok := handler.(caddy.Module)
	if !ok {
		return reflect.TypeOf(handler).String()
	}
	return strings.TrimPrefix(string(module.CaddyModule().ID), "http.handlers.")
}

// stepsOf returns the handlers of a route, loaded or not.
func stepsOf(route *caddyhttp.Route) (steps []*Step) {
	for _, handler := range route.Handlers {
		steps = append(steps, &Step{Name: Name(handler), Loaded: handler})
	}
	if len(steps) > 0 {
		return steps
	}
	for _, raw := range route.HandlersRaw {
		s := &Step{Raw: raw}
		s.read(&struct {
			Handler *string `json:"handler"`
		}{&s.Name})
		steps = append(steps, s)
	}
	return steps
}

// read reads options of a handler that is not loaded. Caddy itself reports what is
// wrong with them.
func (s *Step) read(options any) { _ = json.Unmarshal(s.Raw, options) }

// invokes returns the name of the route that an invoke runs.
func (s *Step) invokes() string {
	if invoke, ok := s.Loaded.(*caddyhttp.Invoke); ok {
		return invoke.Name
	}
	var invoke caddyhttp.Invoke
	s.read(&invoke)
	return invoke.Name
}

// subroute returns the routes of a subroute, and those that run after an error in
// them.
func (s *Step) subroute() (routes, failed caddyhttp.RouteList) {
	sub, ok := s.Loaded.(*caddyhttp.Subroute)
	if !ok {
		sub = new(caddyhttp.Subroute)
		s.read(sub)
	}
	if sub.Errors != nil {
		failed = sub.Errors.Routes
	}
	return sub.Routes, failed
}

// nested returns each list of routes in the options of any other handler, such as
// those that handle a response.
func (s *Step) nested() (lists []caddyhttp.RouteList) {
	if s.Loaded != nil {
		return loadedRoutes(reflect.ValueOf(s.Loaded), 0)
	}
	var options any
	s.read(&options)
	return rawRoutes(options)
}

// loadedRoutes returns the lists of routes in the options of a handler: the fields
// that JSON can set. No request changes them.
func loadedRoutes(v reflect.Value, depth int) (lists []caddyhttp.RouteList) {
	if depth > maxDepth || !v.IsValid() {
		return nil
	}
	if list, ok := reflect.TypeAssert[caddyhttp.RouteList](v); ok {
		return []caddyhttp.RouteList{list}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return loadedRoutes(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			lists = append(lists, loadedRoutes(v.Index(i), depth+1)...)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			lists = append(lists, loadedRoutes(v.MapIndex(key), depth+1)...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Tag.Get("json"); name != "" && name != "-" {
				lists = append(lists, loadedRoutes(v.Field(i), depth+1)...)
			}
		}
	}
	return lists
}

// rawRoutes returns the lists of routes in JSON: those with an object that has the
// name "handle".
func rawRoutes(value any) (lists []caddyhttp.RouteList) {
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			lists = append(lists, rawRoutes(inner)...)
		}
	case []any:
		isRoute := func(v any) bool {
			object, ok := v.(map[string]any)
			return ok && object["handle"] != nil
		}
		if !slices.ContainsFunc(value, isRoute) {
			for _, inner := range value {
				lists = append(lists, rawRoutes(inner)...)
			}
			return lists
		}
		var list caddyhttp.RouteList
		if text, err := json.Marshal(value); err == nil && json.Unmarshal(text, &list) == nil {
			lists = append(lists, list)
		}
	}
	return lists
}

// answers reports whether no request that this handler handles reaches a later
// one.
func (s *Step) answers() bool {
	switch s.Name {
	case "card_forward", "card_self", "card_refuse", "card_health", "card_jwks", "error", "metrics":
		return true
	case "static_response":
		answer, ok := s.Loaded.(*caddyhttp.StaticResponse)
		if !ok {
			answer = new(caddyhttp.StaticResponse)
			s.read(answer)
		}
		status := string(answer.StatusCode)
		return status != "103" && !strings.Contains(status, "{") // Caddy goes on after early hints
	case "file_server":
		var files struct {
			PassThru bool `json:"pass_thru"`
		}
		_ = json.Unmarshal([]byte(s.text()), &files)
		return !files.PassThru
	default:
		return false
	}
}

// changes are what handlers may have changed about a request that matchers
// evaluate.
type changes struct {
	count      int // of handlers that may have changed something
	path, host bool
}

// after returns the changes when a request has passed the step too.
func (c changes) after(s *Step) changes {
	switch s.Name {
	case "subroute", "invoke", "encode", "log_append", "metrics", "intercept":
		return c
	case "rewrite":
		c.path = true
	case "headers":
		c.host = c.host || strings.Contains(strings.ToLower(s.text()), `"host"`)
	}
	if !strings.HasPrefix(s.Name, "card_") {
		c.count++
	}
	return c
}

// or returns the changes of requests that may have had one or the other.
func (c changes) or(d changes) changes {
	return changes{max(c.count, d.count), c.path || d.path, c.host || d.host}
}

// text returns the options as JSON.
func (s *Step) text() string {
	if s.Loaded == nil {
		return string(s.Raw)
	}
	text, _ := json.Marshal(s.Loaded)
	return string(text)
}
