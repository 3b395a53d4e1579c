package auth_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

func TestBuiltinOperations(t *testing.T) {
	want := []string{
		"create_customer", "issue_card", "get_card", "get_sensitive_card", "unfreeze_card", "get_card_balance",
		"list_transactions", "list_customer_transactions", "gateway_key", "gateway_echo", "gateway_rotate", "gateway_close", "other",
	}
	table := newTable(t)
	operations := table.Operations()
	for i, op := range operations {
		if op.Index != i || op.Name != want[i] || table.ByName(op.Name) != op {
			t.Errorf("operation %d is %+v", i, op)
		}
	}
	if len(operations) != len(want) {
		t.Errorf("%d operations, want %d", len(operations), len(want))
	}
	if op := table.ByName("get_sensitive_card"); !slices.Equal(op.Scopes, []string{"cards:sensitive"}) {
		t.Errorf("get_sensitive_card is %+v", op)
	}
	if op := table.ByName("other"); !slices.Equal(op.Scopes, []string{"*"}) {
		t.Errorf("other is %+v", op)
	}
	if table.ByName("nobody") != nil {
		t.Error("an unknown name has an operation")
	}
}

// TestOwnOperations holds for the operations that the gateway answers itself:
// every key may use them, and their paths are read as strictly as the issuer's.
func TestOwnOperations(t *testing.T) {
	table := newTable(t)
	for _, test := range []struct{ method, path, want string }{
		{"GET", "/gateway/v1/key", "gateway_key"},
		{"HEAD", "/Gateway/V1/Key/", "gateway_key"},
		{"POST", "/gateway/v1/echo", "gateway_echo"},
		{"POST", "/gateway/v1/key/rotate", "gateway_rotate"},
		{"POST", "/gateway/v1/nonce/close", "gateway_close"},
		{"POST", "/gateway/v1/key", "other"},
		{"GET", "/gateway/v1/echo", "other"},
		{"GET", "/gateway/v1/key/rotate", "other"},
		{"GET", "/gateway/v1", "other"},
		{"GET", "/gateway/v1/x", "other"},
		{"POST", "/gateway/v1/x/rotate", "other"},
		{"GET", "/api/v1/key", "other"},
		{"GET", "/gateway/v1/cards/c1", "other"}, // not the issuer's get_card
		{"GET", "/gateway/v1/key;x", "bad_target"},
		{"GET", "/gateway.x/v1/key", "bad_target"},
		{"POST", "/gateway/v1/key /rotate", "bad_target"},
	} {
		if got := nameOf(table.Match(test.method, test.path)); got != test.want {
			t.Errorf("%s %s is %s, want %s", test.method, test.path, got, test.want)
		}
	}
	few, err := auth.ParseScopes([]string{"cards:read"})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range table.Operations() {
		own := strings.HasPrefix(op.Name, "gateway_")
		may := slices.ContainsFunc(op.Scopes, few.Has)
		if op.Own != own || may != (own || op.Scopes[0] == "cards:read") {
			t.Errorf("operation %+v: a key with cards:read may use it: %v", op, may)
		}
	}
	if _, err := auth.ParseScopes([]string{auth.ScopeNone}); err == nil {
		t.Error("a key may hold the scope of the operations that need none")
	}
}

// nameOf returns the name of the operation that a match found, or that of the
// refusal.
func nameOf(op *auth.Operation, _ string, refusal *auth.Refusal) string {
	if refusal != nil {
		return refusal.Reason.String()
	}
	return op.Name
}

func TestMatchPrefersLiterals(t *testing.T) {
	def := func(name, pattern string) auth.OperationDef {
		return auth.OperationDef{Name: name, Method: "GET", Pattern: pattern, Scope: "x:read"}
	}
	table := newTable(t,
		def("any_any", "/api/v1/x/{a}/{b}"),
		def("any_b", "/api/v1/x/{a}/B"),
		def("a_any", "/api/v1/x/A/{b}"),
		def("a_c", "/api/v1/x/A/C"),
		def("slash", "/api/v1/x/A/"),
		def("dotted", "/api/v1/x.y/{id}"),
	)
	tests := []struct{ path, want string }{
		{"/api/v1/x/a/c", "a_c"},
		{"/api/v1/x/a/b", "a_any"}, // the leftmost literal decides
		{"/api/v1/x/q/b", "any_b"},
		{"/api/v1/x/q/c", "any_any"},
		{"/api/v1/x/a/", "slash"},
		{"/api/v1/x/a", "slash"},
		{"/api/v1/x/q/", "other"},
		{"/api/v1/x/q/r/", "any_any"},
		{"/api/v1/x/q/r/s", "other"},
		{"/api/v1/xay/q", "other"},
		{"/api/v1/X.Y/q", "dotted"},
		{"/api/v1/", "other"},
		{"/api/v1", "other"},
		{"/", "other"},
		{"", "other"},
		{"/api/v2/x/a/c", "other"},
		{"/api/v1/x/\u212a/b", "any_b"},
	}
	for _, test := range tests {
		for _, method := range []string{"GET", "HEAD"} {
			if got := nameOf(table.Match(method, test.path)); got != test.want {
				t.Errorf("%s %s is %s, want %s", method, test.path, got, test.want)
			}
		}
		for _, method := range []string{"POST", "get", "OPTIONS", ""} {
			if got := nameOf(table.Match(method, test.path)); got != "other" {
				t.Errorf("%s %s is %s", method, test.path, got)
			}
		}
	}
}

func TestLiteralsFoldASCIIOnly(t *testing.T) {
	table := newTable(t, auth.OperationDef{Name: "tokens", Method: "GET", Pattern: "/api/v1/tokens", Scope: "tokens:read"})
	for _, path := range []string{"/api/v1/TOKENS", "/Api/V1/Tokens"} {
		if got := nameOf(table.Match("GET", path)); got != "tokens" {
			t.Errorf("%s is %s", path, got)
		}
	}
	for path, want := range map[string]string{
		"/api/v1/to\u212aens": "bad_target", "/api/v1/token\u017f": "bad_target", // a server might fold them
		"/api/v1/to\u212aen": "other", "/api/v1/tokens\x00": "other",
	} {
		if got := nameOf(table.Match("GET", path)); got != want {
			t.Errorf("%q is %s, want %s", path, got, want)
		}
	}
}

func TestDefinitionsOfOneNameAreOneOperation(t *testing.T) {
	table := newTable(t,
		auth.OperationDef{Name: "upload_documents", Method: "POST", Pattern: "/api/v1/documents", Scope: "documents:write", MaxBody: 20 << 20},
		auth.OperationDef{Name: "get_card", Method: "GET", Pattern: "/api/v1/kards/{id}", Scope: "accounts:read"},
		auth.OperationDef{Name: "upload_documents", Method: "PUT", Pattern: "/api/v1/documents/{id}", Scope: "documents:write"},
	)
	op := table.ByName("upload_documents")
	if op.MaxBody != 20<<20 {
		t.Errorf("upload_documents is %+v", op)
	}
	if nameOf(table.Match("POST", "/api/v1/documents")) != op.Name || nameOf(table.Match("PUT", "/api/v1/documents/7")) != op.Name {
		t.Error("a pattern of upload_documents is not matched")
	}
	// The built-in get_card is replaced and keeps its place.
	if got := nameOf(table.Match("GET", "/api/v1/cards/c1")); got != "other" {
		t.Errorf("the replaced pattern still leads to %s", got)
	}
	replaced, scope, _ := table.Match("GET", "/api/v1/kards/c1")
	if replaced.Name != "get_card" || scope != "accounts:read" || replaced.Index != 2 {
		t.Errorf("get_card is %+v", replaced)
	}
	operations := table.Operations()
	if last := operations[len(operations)-1]; last.Name != "other" || last.Index != len(operations)-1 {
		t.Errorf("the last operation is %+v", last)
	}
}

func TestBadDefinitions(t *testing.T) {
	good := auth.OperationDef{Name: "freeze_card", Method: "POST", Pattern: "/api/v1/cards/{cardId}/freeze", Scope: "cards:write"}
	with := func(change func(*auth.OperationDef)) []auth.OperationDef {
		d := good
		change(&d)
		return []auth.OperationDef{d}
	}
	name := func(s string) []auth.OperationDef { return with(func(d *auth.OperationDef) { d.Name = s }) }
	method := func(s string) []auth.OperationDef { return with(func(d *auth.OperationDef) { d.Method = s }) }
	pattern := func(s string) []auth.OperationDef { return with(func(d *auth.OperationDef) { d.Pattern = s }) }
	scope := func(s string) []auth.OperationDef { return with(func(d *auth.OperationDef) { d.Scope = s }) }
	twice := func(change func(*auth.OperationDef)) []auth.OperationDef { return append(with(change), good) }
	tests := []struct {
		defs []auth.OperationDef
		want string
	}{
		{name("other"), "reserved"},
		{name("total"), "reserved"},
		{name("default"), "reserved"},
		{name("gateway_key"), "reserved"},
		{name("gateway_echo"), "reserved"},
		{name("gateway_rotate"), "reserved"},
		{name(""), "lower-case letters"},
		{name("Freeze"), "lower-case letters"},
		{name("1st"), "lower-case letters"},
		{name("freeze-card"), "lower-case letters"},
		{method("HEAD"), "define GET"},
		{method("post"), "unknown method"},
		{method("*"), "unknown method"},
		{pattern("/cards"), "begin with /api/v1/"},
		{pattern("/API/v1/cards"), "begin with /api/v1/"},
		{pattern(""), "begin with /api/v1/"},
		{pattern("/gateway/v1/key"), "begin with /api/v1/"},
		{pattern("/api/v1/"), "name something"},
		{pattern("/api/v1//cards"), "empty segment"},
		{pattern("/api/v1/cards//"), "empty segment"},
		{pattern("/api/v1/cards/../x"), ". or .. segment"},
		{pattern("/api/v1/cards/{}"), "must fill its segment"},
		{pattern("/api/v1/cards/{id"), "must fill its segment"},
		{pattern("/api/v1/cards/id}"), "must fill its segment"},
		{pattern("/api/v1/cards/x{id}"), "must fill its segment"},
		{pattern("/api/v1/cards/{id}x"), "must fill its segment"},
		{pattern("/api/v1/cards/{a}{b}"), "must fill its segment"},
		{pattern("/api/v1/cards/{1}"), "must fill its segment"},
		{pattern("/api/v1/cards/{a/b}"), "must fill its segment"},
		{pattern("/api/v1/cards/*"), "{placeholder}"},
		{pattern("/api/v1/cards%20"), "plain ASCII"},
		{pattern("/api/v1/cards?a=1"), "plain ASCII"},
		{pattern("/api/v1/cards;x"), "plain ASCII"},
		{pattern("/api/v1/c ards"), "plain ASCII"},
		{pattern("/api/v1/café"), "plain ASCII"},
		{scope(""), "bad scope"},
		{scope("cards"), "bad scope"},
		{scope("none"), "bad scope"},
		{scope("cards:*"), "bad scope"},
		{scope("*"), "bad scope"},
		{scope("Cards:write"), "bad scope"},
		{scope("cards:write "), "bad scope"},
		{scope("crads:write"), "did you mean cards:write?"},
		{scope("card:write"), "did you mean cards:write?"},
		{scope("cards:writes"), "did you mean cards:write?"},
		{scope("carts:read"), "did you mean cards:read?"},
		{scope("cards:senstiive"), "did you mean cards:sensitive?"},
		{with(func(d *auth.OperationDef) { d.MaxBody = -1 }), "negative"},
		{with(func(d *auth.OperationDef) { d.MaxAnswer = -1 }), "negative"},
		{twice(func(d *auth.OperationDef) { d.Pattern = "/api/v1/CARDS/{id}/Freeze"; d.Name = "freeze" }), `operation "freeze"`},
		{twice(func(*auth.OperationDef) {}), "matches the same paths"},
		{twice(func(d *auth.OperationDef) { d.Scope = "x:y" }), "matches the same paths"},
		{append(twice(func(d *auth.OperationDef) { d.Pattern = "/api/v1/x"; d.MaxBody = 1 }),
			with(func(d *auth.OperationDef) { d.Pattern = "/api/v1/y"; d.MaxBody = 2 })...), "max_body"},
		{pattern("/api/v1/cards/{x}/unfreeze"), `operation "unfreeze_card"`},
	}
	for _, test := range tests {
		_, err := auth.NewTable(test.defs)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "operation ") {
			t.Errorf("%+v: got %v, want %q", test.defs, err, test.want)
		}
	}
}

// FuzzTable demands that an accepted pattern matches the paths that it shows. It
// must match no empty segment and no path with another number of segments.
func FuzzTable(f *testing.F) {
	f.Add("/api/v1/documents/{id}", "x", "GET")
	f.Add("/api/v1/a/{b}/c/{d}/", "Q", "DELETE")
	f.Add("/api/v1/{a}", "", "HEAD")
	f.Add("/api/v1/{", "}", "POST")
	f.Fuzz(func(t *testing.T, pattern, value, method string) {
		table, err := auth.NewTable([]auth.OperationDef{{Name: "fuzzed", Method: method, Pattern: pattern, Scope: "a:b"}})
		if err != nil || strings.Contains(value, "/") {
			return
		}
		segments := strings.Split(pattern, "/")
		for i, s := range segments {
			if strings.HasPrefix(s, "{") {
				segments[i] = value
			}
		}
		path := strings.Join(segments, "/")
		want := value != "" || !strings.Contains(pattern, "{")
		for _, p := range []string{path, strings.ToUpper(path[:8]) + path[8:]} {
			for _, p := range []string{p, strings.TrimSuffix(p, "/") + "/"} {
				got := nameOf(table.Match(method, p))
				if want && got == "other" || !want && got == "fuzzed" {
					t.Fatalf("%s matches %q: %v", pattern, p, got)
				}
			}
		}
		others := []string{strings.TrimSuffix(path, "/") + "//", "/x" + path}
		if want { // an empty value leaves its segment open
			others = append(others, strings.TrimSuffix(path, "/")+"/x")
		}
		for _, p := range others {
			if nameOf(table.Match(method, p)) == "fuzzed" {
				t.Fatalf("%s matches %q", pattern, p)
			}
		}
	})
}

// FuzzUpstreamTarget demands that only the segment "card" is ever replaced.
func FuzzUpstreamTarget(f *testing.F) {
	for _, raw := range []string{"/api/v1/card/c1/sensitive?a=1", "/API/v1/%63ard/x/Sensitive", "/api/v1/card/c1", "/api/v1/cards/c1/sensitive"} {
		f.Add(raw)
	}
	table := newTable(f)
	f.Fuzz(func(t *testing.T, raw string) {
		target, refusal := auth.ParseTarget(raw)
		if refusal != nil {
			return
		}
		got := auth.UpstreamTarget(target)
		if got == raw {
			return
		}
		again, refusal := auth.ParseTarget(got)
		if refusal != nil || auth.UpstreamTarget(again) != got {
			t.Fatalf("%q becomes %q", raw, got)
		}
		a, b := strings.Split(raw, "/"), strings.Split(got, "/")
		if len(a) != len(b) || b[3] != "cards" || !slices.Equal(a[:3], b[:3]) || !slices.Equal(a[4:], b[4:]) {
			t.Fatalf("%q becomes %q", raw, got)
		}
		if nameOf(table.Match("GET", target.Path)) != "get_sensitive_card" || nameOf(table.Match("GET", again.Path)) != "get_sensitive_card" {
			t.Fatalf("%q becomes %q, another operation", raw, got)
		}
	})
}
