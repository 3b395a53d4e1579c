package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Table finds the operation of a request. It is immutable.
type Table struct {
	operations []*Operation
	names      map[string]*Operation
	other      *Operation
	// routes holds the routes by method and by number of segments, those of the
	// prefix included. A route with a literal further left comes first.
	routes [methodCount][][]route
}

// The methods that patterns have, as indexes.
const (
	methodGet = iota
	methodPost
	methodPut
	methodPatch
	methodDelete
	methodCount
)

func methodIndex(method string) int {
	switch method {
	case "GET", "HEAD":
		return methodGet
	case "POST":
		return methodPost
	case "PUT":
		return methodPut
	case "PATCH":
		return methodPatch
	case "DELETE":
		return methodDelete
	default:
		return -1
	}
}

// NewTable returns the table of the built-in operations, the given ones, and
// those that the gateway answers itself. Definitions with the name of a
// built-in operation replace it. The table always holds the operation "other",
// as the last one.
//
// It is an error if a name, method, pattern or scope is malformed, if the
// definitions of one name have two sizes of MaxBody, or if two patterns of one
// method match the same paths.
func NewTable(defs []OperationDef) (*Table, error) {
	t := &Table{names: make(map[string]*Operation)}
	given := make(map[string]bool)
	for _, d := range defs {
		given[d.Name] = true
	}
	all := builtinOperations()
	for _, d := range all {
		t.reserve(d.Name) // a replaced one keeps its place in the order
	}
	all = slices.DeleteFunc(all, func(d OperationDef) bool { return given[d.Name] })
	for _, d := range append(all, defs...) {
		if err := d.check(); err != nil {
			return nil, fmt.Errorf("operation %q: %w", d.Name, err)
		}
		if err := t.add(d, apiPrefix); err != nil {
			return nil, fmt.Errorf("operation %q: %w", d.Name, err)
		}
	}
	for _, d := range ownOperations() {
		if err := t.add(d, ownPrefix); err != nil {
			return nil, err
		}
		t.names[d.Name].Own = true
	}
	t.other = t.reserve(OtherOperation)
	t.other.Scopes = []string{ScopeAll}
	t.sortRoutes()
	return t, nil
}

// reserve returns the operation of the name. It makes one if there is none.
func (t *Table) reserve(name string) *Operation {
	op := t.names[name]
	if op == nil {
		op = &Operation{Name: name, Index: len(t.operations)}
		t.operations = append(t.operations, op)
		t.names[name] = op
	}
	return op
}

// add adds a definition whose pattern must begin with the prefix.
func (t *Table) add(d OperationDef, prefix string) error {
	segments, err := parsePattern(d.Pattern, prefix)
	if err != nil {
		return fmt.Errorf("bad pattern %q: %w", d.Pattern, err)
	}
	op := t.reserve(d.Name)
	if op.MaxBody != 0 && d.MaxBody != 0 && op.MaxBody != d.MaxBody {
		return errors.New("its definitions name two sizes of max_body; it must be one")
	}
	if !slices.Contains(op.Scopes, d.Scope) {
		op.Scopes = append(op.Scopes, d.Scope)
	}
	op.MaxBody = max(op.MaxBody, d.MaxBody)
	op.Routes = append(op.Routes, Route{Method: d.Method, Pattern: d.Pattern, Scope: d.Scope})

	r := route{segments: segments, operation: op, scope: d.Scope, shape: shapeOf(segments)}
	byCount := &t.routes[methodIndex(d.Method)]
	for len(*byCount) <= len(segments) {
		*byCount = append(*byCount, nil)
	}
	routes := &(*byCount)[len(segments)]
	for _, other := range *routes {
		if other.shape == r.shape {
			return fmt.Errorf("%s %s matches the same paths as a pattern of operation %q", d.Method, d.Pattern, other.operation.Name)
		}
	}
	*routes = append(*routes, r)
	return nil
}

func (t *Table) sortRoutes() {
	for _, byCount := range t.routes {
		for _, routes := range byCount {
			slices.SortStableFunc(routes, compareRoutes)
		}
	}
}

// Match returns the operation of a request by its method and decoded path, and
// the scope that the request needs: that of the route that matches, which other
// routes of the operation need not share. When no pattern matches it returns
// "other" and [ScopeAll]. HEAD is matched as GET. One slash at the end makes no
// difference. Match refuses a path that only a lenient server would read as
// another operation; see route.go. For a path that it does not refuse it
// allocates only when the path holds a percent sign.
func (t *Table) Match(method, path string) (op *Operation, scope string, refusal *Refusal) {
	path = strings.TrimSuffix(path, "/")
	routes := t.candidates(method, path)
	var exact *route
	for i := range routes {
		if matchSegments(routes[i].segments, path[1:]) {
			exact = &routes[i]
			break
		}
	}
	if !isPlain(path) && foldsAway(routes, exact, path) {
		return nil, "", badTarget(faultFolds)
	}
	if exact == nil {
		return t.other, ScopeAll, nil
	}
	return exact.operation, exact.scope, nil
}

// candidates returns the routes of the method with the same number of segments
// as the path.
func (t *Table) candidates(method, path string) []route {
	m, count := methodIndex(method), strings.Count(path, "/")
	if m < 0 || count >= len(t.routes[m]) {
		return nil
	}
	return t.routes[m][count]
}

// Operations returns all operations by their Index; "other" is the last.
func (t *Table) Operations() []*Operation { return slices.Clone(t.operations) }

// ByName returns the operation of the name, or nil.
func (t *Table) ByName(name string) *Operation { return t.names[name] }
