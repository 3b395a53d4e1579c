package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
	"pgregory.net/rapid"
)

func init() { caddy.RegisterModule(new(mark)) }

// A mark is a handler that writes its name into the header X-Passed of the request.
type mark struct {
	Name string `json:"name,omitempty"`
}

func (*mark) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_mark", New: func() caddy.Module { return new(mark) }}
}

func (m *mark) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	passed, _ := r.Context().Value(passedKey{}).(*[]string)
	*passed = append(*passed, m.Name)
	return next.ServeHTTP(w, r)
}

type passedKey struct{}

// silent takes an answer, as net/http does also without a status.
type silent struct{}

func (silent) Header() http.Header         { return http.Header{} }
func (silent) Write(b []byte) (int, error) { return len(b), nil }
func (silent) WriteHeader(int)             {}

// nameOf returns the name of a mark, loaded or not.
func nameOf(s *Step) string {
	m, ok := s.Loaded.(*mark)
	if !ok {
		m = new(mark)
		s.read(m)
	}
	return m.Name
}

// A drawing makes random routes. Each mark has a name of its own.
type drawing struct {
	*rapid.T
	marks int
	depth int
}

func (d *drawing) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(d.T, label)
}

// The patterns are such that some cover others, some overlap and some do not.
var (
	drawnPaths = []string{"/api/*", "/api/v1/*", "/API/v1/cards", "*", "/x/*", "/api/*/cards", "*cards", "*v1*", "/x/a?", "**ds", "/api/v1/c%61rds", "/api//v1/*"}
	drawnHosts = []string{"a.test", "b.test", "*.test", "*.a.test"}
)

func (d *drawing) matcher() string {
	switch d.pick("matcher", "path", "path", "path", "host", "method", "header", "not", "both") {
	case "path":
		return fmt.Sprintf(`{"path":%s}`, d.list(drawnPaths))
	case "host":
		return fmt.Sprintf(`{"host":%s}`, d.list(drawnHosts))
	case "method":
		return fmt.Sprintf(`{"method":[%q]}`, d.pick("method", "GET", "POST"))
	case "header":
		return `{"header":{"X-Set":["1"]}}`
	case "not":
		if d.depth++; d.depth > 3 {
			return `{"not":[{"path":["/api/v1/*"]}]}`
		}
		return fmt.Sprintf(`{"not":[%s]}`, d.matcher())
	default:
		return fmt.Sprintf(`{"path":%s,"method":["GET"]}`, d.list(drawnPaths))
	}
}

func (d *drawing) list(from []string) string {
	text, _ := json.Marshal(rapid.SliceOfNDistinct(rapid.SampledFrom(from), 1, 2, rapid.ID[string]).Draw(d.T, "patterns"))
	return string(text)
}

func (d *drawing) mark() string {
	d.marks++
	return fmt.Sprintf(`{"handler":"card_mark","name":"m%d"}`, d.marks)
}

func (d *drawing) handler(level int) string {
	switch d.pick("handler", "mark", "mark", "mark", "subroute", "failing", "invoke", "answer", "hints", "error", "rewrite", "set", "intercept") {
	case "subroute":
		if level < 3 {
			return `{"handler":"subroute","routes":` + d.routes(level+1) + `}`
		}
	case "failing":
		if level < 3 {
			return `{"handler":"subroute","routes":` + d.routes(level+1) + `,"errors":{"routes":` + d.routes(level+1) + `}}`
		}
	case "invoke":
		return fmt.Sprintf(`{"handler":"invoke","name":%q}`, d.pick("named", "n1", "n2"))
	case "answer":
		return `{"handler":"static_response","status_code":204}`
	case "hints":
		return `{"handler":"static_response","status_code":103}`
	case "error":
		return `{"handler":"error","status_code":500}`
	case "rewrite":
		return fmt.Sprintf(`{"handler":"rewrite","uri":%q}`, d.pick("target", "/api/v1/cards", "/x/a"))
	case "set":
		return `{"handler":"headers","request":{"set":{"X-Set":["1"],"Host":["b.test"]}}}`
	case "intercept":
		return `{"handler":"intercept","handle_response":[{"routes":[{"handle":[` + d.mark() + `]}]}]}`
	}
	return d.mark()
}

func (d *drawing) routes(level int) string {
	var all []string
	for range rapid.IntRange(1, 3).Draw(d.T, "routes") {
		var parts []string
		if sets := rapid.IntRange(0, 2).Draw(d.T, "sets"); sets > 0 {
			var match []string
			for range sets {
				d.depth = 0
				match = append(match, d.matcher())
			}
			parts = append(parts, `"match":[`+strings.Join(match, ",")+`]`)
		}
		if rapid.IntRange(0, 2).Draw(d.T, "grouped") == 0 {
			parts = append(parts, fmt.Sprintf(`"group":"g%d"`, rapid.IntRange(1, 2).Draw(d.T, "group")))
		}
		if rapid.IntRange(0, 5).Draw(d.T, "ends") == 0 {
			parts = append(parts, `"terminal":true`)
		}
		var handle []string
		for range rapid.IntRange(1, 2).Draw(d.T, "handlers") {
			handle = append(handle, d.handler(level))
		}
		parts = append(parts, `"handle":[`+strings.Join(handle, ",")+`]`)
		all = append(all, `{`+strings.Join(parts, ",")+`}`)
	}
	return "[" + strings.Join(all, ",") + "]"
}

// visited collects the names of the marks that flows have passed before each one,
// and after the last.
func visited(t *rapid.T, server *caddyhttp.Server) map[string]bool {
	seen := make(map[string]bool)
	note := func(f *Flow, name string) {
		var passed []string
		for _, p := range f.Passed {
			passed = append(passed, nameOf(p.Step))
		}
		seen[strings.Join(append(passed, name), " ")] = true
	}
	w := &Walk{Server: server, Note: func(s *Step) bool { return s.Name == "card_mark" }}
	w.Visit = func(s *Step, flows []Flow) {
		for i := range flows {
			if s.Name == "card_mark" {
				note(&flows[i], nameOf(s))
			}
		}
	}
	if _, err := w.Routes(); err != nil {
		t.Skip(err)
	}
	return seen
}

// Whatever the routes are, loaded or not: where Caddy lets a request pass some
// handlers and reach another one, the walk has found that.
func TestNothingIsMissed(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	rapid.Check(t, func(r *rapid.T) {
		d := &drawing{T: r}
		server := new(caddyhttp.Server)
		text := fmt.Sprintf(`{"routes":%s,"named_routes":{"n1":{"handle":[%s,%s]},"n2":{"match":[%s],"handle":[%s,{"handler":"invoke","name":"n1"}]}}}`,
			d.routes(0), d.mark(), d.mark(), d.matcher(), d.mark())
		if err := json.Unmarshal([]byte(text), server); err != nil {
			r.Fatal(err)
		}
		raw := visited(r, server)
		if err := server.Routes.Provision(ctx); err != nil {
			r.Skip(err)
		}
		for _, route := range server.NamedRoutes {
			if err := route.Provision(ctx, nil); err != nil {
				r.Fatal(err)
			}
		}
		loaded := visited(r, server)
		for range 40 {
			method, host := d.pick("method", "GET", "POST", "PUT"), d.pick("host", "a.test", "b.test", "x.a.test", "other")
			path := d.pick("path", "/api/v1/cards", "/api/v1/x", "/api/v2/cards", "/x/ab", "/x/a/b", "/other", "/api//v1/cards", "/API/V1/c%61rds", "/ads")
			request := httptest.NewRequest(method, "http://"+host+path, nil)
			if rapid.Bool().Draw(r, "header") {
				request.Header.Set("X-Set", "1")
			}
			var passed []string
			request = request.WithContext(context.WithValue(request.Context(), passedKey{}, &passed))
			w := silent{}
			request = caddyhttp.PrepareRequest(request, caddy.NewReplacer(), w, server)
			_ = server.Routes.Compile(caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusNoContent); return nil })).ServeHTTP(w, request)
			for i := range passed {
				way := strings.Join(passed[:i+1], " ")
				// An error may come before any of them, and a response after all.
				if !found(raw, passed[:i+1]) || !found(loaded, passed[:i+1]) {
					r.Fatalf("%s %s%s passes %s, which the walk has not found (raw %t, loaded %t)\n%s", method, host, path, way, raw[way], loaded[way], text)
				}
			}
		}
	})
}

// found reports whether the walk has found a way to the last of the marks on which
// only marks were passed that the request has passed: the walk may know less than
// what has happened, since an error or a response brings a request back.
func found(seen map[string]bool, passed []string) bool {
	last := passed[len(passed)-1]
	for way := range seen {
		names := strings.Fields(way)
		if names[len(names)-1] != last {
			continue
		}
		if !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(passed, name) }) {
			return true
		}
	}
	return false
}

// The walk finds handlers in every place where Caddy can put them, and leaves
// out those that cannot run after the given one.
func TestHandlersBehind(t *testing.T) {
	from, later := &mark{Name: "from"}, &mark{Name: "later"}
	list := func(handlers ...caddyhttp.MiddlewareHandler) []caddyhttp.MiddlewareHandler { return handlers }
	sub := func(routes ...caddyhttp.Route) caddyhttp.MiddlewareHandler {
		return &caddyhttp.Subroute{Routes: routes}
	}
	h := func(handlers ...caddyhttp.MiddlewareHandler) caddyhttp.Route {
		return caddyhttp.Route{Handlers: handlers}
	}
	named := map[string]*caddyhttp.Route{"n": {Handlers: list(later)}, "self": {Handlers: list(from, later)}, "loop": {Handlers: list(&caddyhttp.Invoke{Name: "loop"})}}
	for name, c := range map[string]struct {
		routes caddyhttp.RouteList
		want   bool
	}{
		"same route":         {caddyhttp.RouteList{h(from, later)}, true},
		"before":             {caddyhttp.RouteList{h(later, from)}, false},
		"next route":         {caddyhttp.RouteList{h(from), h(later)}, true},
		"behind a terminal":  {caddyhttp.RouteList{{Handlers: list(from), Terminal: true}, h(later)}, false},
		"of the same group":  {caddyhttp.RouteList{{Handlers: list(from), Group: "g"}, {Handlers: list(later), Group: "g"}}, false},
		"of another group":   {caddyhttp.RouteList{{Handlers: list(from), Group: "g"}, {Handlers: list(later), Group: "h"}}, true},
		"nested":             {caddyhttp.RouteList{h(sub(h(from), h(sub(h(later)))))}, true},
		"behind the nest":    {caddyhttp.RouteList{h(sub(h(from)), later)}, true},
		"in a named route":   {caddyhttp.RouteList{h(from, &caddyhttp.Invoke{Name: "n"})}, true},
		"named with itself":  {caddyhttp.RouteList{h(&caddyhttp.Invoke{Name: "self"})}, true},
		"a loop of names":    {caddyhttp.RouteList{h(from, &caddyhttp.Invoke{Name: "loop"})}, false},
		"on another branch":  {caddyhttp.RouteList{{Handlers: list(sub(h(from))), Terminal: true}, h(sub(h(later)))}, false},
		"a server without":   {caddyhttp.RouteList{h(from)}, false},
		"invoked only there": {nil, true},
	} {
		found := false
		for _, handler := range Behind(&caddyhttp.Server{Routes: c.routes, NamedRoutes: named}, from) {
			found = found || handler == later
		}
		if found != c.want {
			t.Errorf("%s: %v, want %v", name, found, c.want)
		}
	}
}
