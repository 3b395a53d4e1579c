package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// OtherOperation is the name of the operation of every path that no pattern
// matches. Only a key with the scope "*" may use it.
const OtherOperation = "other"

// SensitiveOperation is the name of the operation that returns card numbers.
const SensitiveOperation = "get_sensitive_card"

// The operations that the gateway answers itself, for the holder of any key.
const (
	KeyOperation    = "gateway_key"    // what the key is, and what is left of its limits
	EchoOperation   = "gateway_echo"   // what was signed, and what the gateway read
	RotateOperation = "gateway_rotate" // a new secret
	CloseOperation  = "gateway_close"  // a nonce that no request can use any more
)

// An Operation is what a request asks for: a named set of methods and paths.
// Limits, metrics and logs name an endpoint by the name of its operation. The
// scope that a request needs is that of the route that it matches.
type Operation struct {
	Name      string
	Scopes    []string // of its routes, each once; [ScopeAll] for "other"
	Routes    []Route  // as they were defined; none for "other"
	MaxBody   int64    // largest body in bytes; 0: what the site allows
	MaxAnswer int64    // largest answer that is held, in bytes; 0: the gateway's
	Index     int      // in [Table.Operations], for arrays with one entry per operation
	Own       bool     // the gateway answers it itself; it must never reach an issuer
}

// A Route is one method and path pattern of an operation, with the scope that
// its requests need: [ScopeNone] where the operation is Own.
type Route struct{ Method, Pattern, Scope string }

// An OperationDef defines one method and pattern of an operation. Definitions
// with the same name make one operation together, and each keeps its scope.
type OperationDef struct {
	Name      string // [a-z][a-z0-9_]*
	Method    string // GET, POST, PUT, PATCH or DELETE; GET also means HEAD
	Pattern   string // below /api/v1/; a {placeholder} stands for one segment
	Scope     string // resource:action
	MaxBody   int64  // largest body of the operation in bytes; 0: that of another definition, or what the site allows
	MaxAnswer int64  // largest answer of the operation that is held, in bytes; 0: that of another definition, or the gateway's
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

// ownOperations are the operations that the gateway answers itself. Their paths
// are outside of /api/v1/, which is the issuer's, and no configuration changes
// them.
func ownOperations() []OperationDef {
	return []OperationDef{
		{Name: KeyOperation, Method: "GET", Pattern: "/gateway/v1/key", Scope: ScopeNone},
		{Name: EchoOperation, Method: "POST", Pattern: "/gateway/v1/echo", Scope: ScopeNone},
		{Name: RotateOperation, Method: "POST", Pattern: "/gateway/v1/key/rotate", Scope: ScopeNone},
		{Name: CloseOperation, Method: "POST", Pattern: "/gateway/v1/nonce/close", Scope: ScopeNone},
	}
}

// A Table finds the operation of a request. It is immutable.
type Table struct {
	operations []*Operation
	names      map[string]*Operation
	other      *Operation
	// routes holds the routes by method and by number of segments, those of the
	// prefix included. A route with a literal further left comes first.
	routes [len(methods)][][]route
}

// methods are those that patterns have.
var methods = [...]string{"GET", "POST", "PUT", "PATCH", "DELETE"}

// methodIndex returns the index of the method in methods, that of GET for HEAD, or
// -1.
func methodIndex(method string) int {
	if method == "HEAD" {
		return 0
	}
	return slices.Index(methods[:], method)
}

// NewTable returns the table of the built-in operations, the given ones, and
// those that the gateway answers itself. Definitions with the name of a
// built-in operation replace it. The table always holds the operation "other",
// as the last one.
//
// It is an error if a name, method, pattern or scope is malformed, if the
// definitions of one name have two sizes of MaxBody or MaxAnswer, or if two patterns of one
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
	differ := func(a, b int64) bool { return a != 0 && b != 0 && a != b }
	if differ(op.MaxBody, d.MaxBody) || differ(op.MaxAnswer, d.MaxAnswer) {
		return errors.New("its definitions name two sizes of max_body or max_answer; it must be one")
	}
	if !slices.Contains(op.Scopes, d.Scope) {
		op.Scopes = append(op.Scopes, d.Scope)
	}
	op.MaxBody, op.MaxAnswer = max(op.MaxBody, d.MaxBody), max(op.MaxAnswer, d.MaxAnswer)
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
// another operation; see foldsAway. For a path that it does not refuse it
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

// A path is refused when it matches a pattern only after folding (see foldsAway).
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

const (
	// apiPrefix begins the paths of the operations that an issuer answers.
	apiPrefix = "/api/v1/"
	// ownPrefix begins the paths of the operations that the gateway answers.
	ownPrefix = "/gateway/v1/"
)

// A segment is one part of a pattern between slashes: a literal, compared
// without regard to ASCII case, or a placeholder for one non-empty segment.
type segment struct {
	literal     string
	placeholder bool
}

// mistyped reports whether a and b differ by one character at most, or by two neighbours
// that have changed places.
func mistyped(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}

// check returns an error that names the fault of a configured definition, nil
// where there is none. It does not look at the pattern.
func (d *OperationDef) check() error {
	switch d.Name {
	case OtherOperation, "total", "default", KeyOperation, EchoOperation, RotateOperation, CloseOperation:
		return errors.New("the name is reserved; choose another")
	}
	if !isName(d.Name, lowerLetters, lowerLetters+digits+"_") {
		return errors.New("the name must be lower-case letters, digits and underscores, with a letter first")
	}
	if d.Method == "HEAD" {
		return errors.New("the method HEAD is matched as GET; define GET")
	}
	if methodIndex(d.Method) < 0 {
		return fmt.Errorf("unknown method %q; use GET, POST, PUT, PATCH or DELETE, in upper case", d.Method)
	}
	if !isPlainScope(d.Scope) {
		return fmt.Errorf("bad scope %q: write resource:action in lower case, such as cards:read", d.Scope)
	}
	for _, known := range KnownScopes() {
		if d.Scope != known && mistyped(d.Scope, known) {
			return fmt.Errorf("bad scope %q: did you mean %s? A scope of your own must differ from it by more than one letter", d.Scope, known)
		}
	}
	if d.MaxBody < 0 || d.MaxAnswer < 0 {
		return errors.New("max_body and max_answer must not be negative")
	}
	return nil
}

// parsePattern returns the segments of a pattern that begins with the prefix,
// those of the prefix included. One slash at the end makes no difference.
func parsePattern(pattern, prefix string) ([]segment, error) {
	rest, ok := strings.CutPrefix(pattern, prefix)
	if !ok {
		return nil, errors.New("it must begin with " + prefix)
	}
	if rest = strings.TrimSuffix(rest, "/"); rest == "" {
		return nil, errors.New("it must name something below " + prefix)
	}
	parts := strings.Split(prefix[1:]+rest, "/")
	segments := make([]segment, len(parts))
	for i, part := range parts {
		s, err := parseSegment(part)
		if err != nil {
			return nil, err
		}
		segments[i] = s
	}
	return segments, nil
}

func parseSegment(part string) (segment, error) {
	switch part {
	case "":
		return segment{}, errors.New("it has an empty segment")
	case ".", "..":
		return segment{}, errors.New("it has a . or .. segment, which no request may have")
	}
	if name, ok := strings.CutPrefix(part, "{"); ok {
		name, ok = strings.CutSuffix(name, "}")
		if !ok || !isName(name, letters+"_", letters+digits+"_") {
			return segment{}, fmt.Errorf("the placeholder %q must fill its segment, as in {cardId}", part)
		}
		return segment{placeholder: true}, nil
	}
	if strings.ContainsAny(part, "{}") {
		return segment{}, fmt.Errorf("the placeholder in %q must fill its segment, as in {cardId}", part)
	}
	if strings.Contains(part, "*") {
		return segment{}, errors.New("it has a *; write a {placeholder}, which stands for one segment")
	}
	for i := 0; i < len(part); i++ {
		if c := part[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`%?#;"<>^|\`+"`", c) >= 0 {
			return segment{}, fmt.Errorf("the segment %q must be plain ASCII text, as it is after decoding", part)
		}
	}
	return segment{literal: part}, nil
}

// shapeOf returns a text that is equal for patterns that match the same paths.
func shapeOf(segments []segment) string {
	var b strings.Builder
	for _, s := range segments {
		if s.placeholder {
			b.WriteString("/{}")
		} else {
			b.WriteString("/" + strings.ToLower(s.literal))
		}
	}
	return b.String()
}

// equalFold compares a part of a path with a literal, which is ASCII, without regard
// to case. As long as the lengths are equal, no other letter equals one of ASCII: the
// Kelvin sign has three bytes.
func equalFold(part, literal string) bool {
	return len(part) == len(literal) && strings.EqualFold(part, literal)
}

// matchSegments reports whether the segments match a path without its first
// slash, which has as many segments.
func matchSegments(segments []segment, rest string) bool {
	for i := range segments {
		part, after, _ := strings.Cut(rest, "/")
		rest = after
		if segments[i].placeholder {
			if part == "" {
				return false
			}
		} else if !equalFold(part, segments[i].literal) {
			return false
		}
	}
	return true
}
