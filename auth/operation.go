package auth

import (
	"fmt"
	"slices"
	"strings"
)

// OtherOperation is the name of the operation of every path that no pattern
// matches. Only a key with the scope "*" may use it.
const OtherOperation = "other"

// SensitiveOperation is the name of the operation that returns card numbers.
const SensitiveOperation = "get_sensitive_card"

// An Operation is what a request asks for: a named set of methods and paths
// with a scope. Everything that speaks of an endpoint uses its name.
type Operation struct {
	Name    string
	Scope   string
	MaxBody int64 // largest body in bytes; 0: what the site allows
	Index   int   // in [Table.Operations], for arrays with one entry per operation
}

// An OperationDef defines one method and pattern of an operation. Several of
// one name make one operation together.
type OperationDef struct {
	Name    string // [a-z][a-z0-9_]*
	Method  string // GET, POST, PUT, PATCH or DELETE; GET also means HEAD
	Pattern string // below /api/v1/, a {placeholder} stands for one segment
	Scope   string // resource:action
	MaxBody int64  // largest body in bytes; 0: what the site allows
}

// builtinOperations are the operations whose paths the published interface
// shows.
func builtinOperations() []OperationDef {
	return []OperationDef{
		{Name: "create_customer", Method: "POST", Pattern: "/api/v1/Customers", Scope: "customers:write"},
		{Name: "issue_card", Method: "POST", Pattern: "/api/v1/cards", Scope: "cards:write"},
		{Name: "get_card", Method: "GET", Pattern: "/api/v1/cards/{cardId}", Scope: "cards:read"},
		{Name: SensitiveOperation, Method: "GET", Pattern: "/api/v1/cards/{cardId}/sensitive", Scope: ScopeSensitive},
		{Name: SensitiveOperation, Method: "GET", Pattern: "/api/v1/card/{cardId}/sensitive", Scope: ScopeSensitive},
		{Name: "unfreeze_card", Method: "POST", Pattern: "/api/v1/cards/{cardId}/unfreeze", Scope: "cards:write"},
		{Name: "get_card_balance", Method: "GET", Pattern: "/api/v1/cards/{cardId}/balance", Scope: "cards:read"},
		{Name: "list_transactions", Method: "GET", Pattern: "/api/v1/transactions", Scope: "transactions:read"},
		{Name: "list_customer_transactions", Method: "GET", Pattern: "/api/v1/customers/{customerId}/transactions", Scope: "transactions:read"},
	}
}

// A Table finds the operation of a request. It is immutable.
type Table struct {
	operations []*Operation
	names      map[string]*Operation
	other      *Operation
	// routes holds per method the patterns of each number of segments, those
	// with literals further left first.
	routes [methodCount][][]route
}

// A route is a pattern that leads to an operation.
type route struct {
	segments  []segment
	operation *Operation
	shape     string // equal for patterns that match the same paths
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

// NewTable returns the table of the built-in operations and the given ones.
// Definitions that carry the name of a built-in operation replace it. The
// operation "other" is always there and comes last.
//
// It is an error if a name, method, pattern or scope is malformed, if the
// definitions of one name disagree, or if two patterns of one method match the
// same paths.
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
		if err := t.add(d); err != nil {
			return nil, err
		}
	}
	t.other = t.reserve(OtherOperation)
	t.other.Scope = ScopeAll
	t.sortRoutes()
	return t, nil
}

// reserve returns the operation of the name and makes it if need be.
func (t *Table) reserve(name string) *Operation {
	op := t.names[name]
	if op == nil {
		op = &Operation{Name: name, Index: len(t.operations)}
		t.operations = append(t.operations, op)
		t.names[name] = op
	}
	return op
}

// add checks a definition and adds it.
func (t *Table) add(d OperationDef) error {
	segments, err := d.check()
	if err != nil {
		return fmt.Errorf("operation %q: %w", d.Name, err)
	}
	op := t.reserve(d.Name)
	if op.Scope != "" && op.Scope != d.Scope {
		return fmt.Errorf("operation %q: its definitions name the scopes %s and %s; it must be one", d.Name, op.Scope, d.Scope)
	}
	if op.MaxBody != 0 && d.MaxBody != 0 && op.MaxBody != d.MaxBody {
		return fmt.Errorf("operation %q: its definitions name two sizes of max_body; it must be one", d.Name)
	}
	op.Scope = d.Scope
	op.MaxBody = max(op.MaxBody, d.MaxBody)

	r := route{segments: segments, operation: op, shape: shapeOf(segments)}
	byCount := &t.routes[methodIndex(d.Method)]
	for len(*byCount) <= len(segments) {
		*byCount = append(*byCount, nil)
	}
	routes := &(*byCount)[len(segments)]
	for _, other := range *routes {
		if other.shape == r.shape {
			return fmt.Errorf("operation %q: %s %s matches the same paths as a pattern of operation %q", d.Name, d.Method, d.Pattern, other.operation.Name)
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

// compareRoutes orders the pattern first that has a literal where the other
// has a placeholder, in the leftmost segment where they differ in that.
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

// Match returns the operation of a request by its method and decoded path, and
// "other" when no pattern matches. HEAD is matched as GET. One slash at the end
// makes no difference. A path that is refused names an operation in a way that
// only a lenient server would read: see fold.go. Match does not allocate for a
// path that is not refused, unless the path holds a percent sign.
func (t *Table) Match(method, path string) (*Operation, *Refusal) {
	path = strings.TrimSuffix(path, "/")
	routes := t.candidates(method, path)
	var exact *route
	if hasAPIPrefix(path) {
		for i := range routes {
			if matchSegments(routes[i].segments, path[len(apiPrefix):]) {
				exact = &routes[i]
				break
			}
		}
	}
	if !isPlain(path) && foldsAway(routes, exact, path) {
		return nil, badTarget(faultFolds)
	}
	if exact == nil {
		return t.other, nil
	}
	return exact.operation, nil
}

// candidates returns the routes of the method that have as many segments as
// the path.
func (t *Table) candidates(method, path string) []route {
	m, count := methodIndex(method), strings.Count(path, "/")-len(apiSegments)
	if m < 0 || count < 1 || count >= len(t.routes[m]) {
		return nil
	}
	return t.routes[m][count]
}

// Operations returns all operations by their Index; "other" is the last.
func (t *Table) Operations() []*Operation { return slices.Clone(t.operations) }

// ByName returns the operation of the name, or nil.
func (t *Table) ByName(name string) *Operation { return t.names[name] }
