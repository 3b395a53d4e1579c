package auth_test

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
)

// operationOf returns the name of the operation of a request for the target, or
// that of the refusal.
func operationOf(table *auth.Table, method, raw string) string {
	name, _ := needOf(table, method, raw)
	return name
}

// needOf returns what operationOf does, and the scope that the request needs.
func needOf(table *auth.Table, method, raw string) (name, scope string) {
	target, refusal := auth.ParseTarget(raw)
	if refusal != nil {
		return refusal.Reason.String(), ""
	}
	op, scope, refusal := table.Match(method, target.Path)
	return nameOf(op, scope, refusal), scope
}

// TestFoldedTargets holds the published rule for ambiguous targets where it
// needs the operations: what a lenient server reads as another operation is
// refused, and one slash at the end makes no difference.
func TestFoldedTargets(t *testing.T) {
	table := newTable(t,
		auth.OperationDef{Name: "export", Method: "GET", Pattern: "/api/v1/cards/export", Scope: "cards:export"},
		auth.OperationDef{Name: "export_csv", Method: "GET", Pattern: "/api/v1/cards/export.csv", Scope: "cards:export"},
		auth.OperationDef{Name: "latest", Method: "GET", Pattern: "/api/v1/rates/", Scope: "rates:read"},
	)
	for target, want := range map[string]string{
		"/api/v1/cards/c1/sensitive":       "get_sensitive_card",
		"/api/v1/cards/c1/sensitive/":      "get_sensitive_card",
		"/api/v1/card/c1/sensitive/":       "get_sensitive_card",
		"/api/v1/cards/c1.x/sensitive":     "get_sensitive_card",
		"/api/v1/cards/c1/sensitive;a":     "bad_target",
		"/api/v1/cards/c1/sensitive;a/":    "bad_target",
		"/api/v1/cards;a/x/sensitive":      "bad_target",
		"/api;a/v1/cards/x/sensitive":      "bad_target",
		"/api/v1.0/cards/x/sensitive":      "bad_target",
		"/api/v1/cards/c1/sensitive%20":    "bad_target",
		"/api/v1/cards/c1/%20sensitive":    "bad_target",
		"/api/v1/cards/c1/sensitive%2520":  "bad_target",
		"/api/v1/cards/c1/%2573ensitive":   "bad_target",
		"/api/v1/cards/c1/sensitive%a0":    "bad_target",
		"/api/v1/cards/c1/sensitive%3fa":   "other",
		"/api/v1/cards/c1/sensitively":     "other",
		"/api/v1/cards/c1/%c5%bfensitive":  "bad_target",
		"/api/v1/cards/c1/sensitive.json":  "bad_target",
		"/api/v1/cards.json/c1":            "bad_target",
		"/api/v1/cards/export":             "export",
		"/api/v1/cards/EXPORT/":            "export",
		"/api/v1/cards/export;x":           "bad_target",
		"/api/v1/cards/export.":            "bad_target",
		"/api/v1/cards/export%20":          "bad_target",
		"/api/v1/cards/export.json":        "bad_target",
		"/api/v1/cards/export%20.tar.gz":   "bad_target",
		"/api/v1/cards/export.csv":         "export_csv",
		"/api/v1/cards/exports":            "get_card",
		"/api/v1/cards/my.export":          "get_card",
		"/api/v1/cards/export%20x":         "get_card",
		"/api/v1/cards/c1.json":            "get_card",
		"/api/v1/cards/50%25off":           "get_card",
		"/api/v1/cards/%20":                "bad_target",
		"/api/v1/cards/...":                "bad_target",
		"/api/v1/cards/%20./sensitive":     "bad_target",
		"/api/v1/rates":                    "latest",
		"/api/v1/rates/":                   "latest",
		"/api/v1/a;x=1/b!$&'()*,:@=":       "other",
		"/api/v1/":                         "other",
		"/api/v1/orders;x/1.json/%20a%20b": "other",
	} {
		if got := operationOf(table, "GET", target); got != want {
			t.Errorf("%s is %s, want %s", target, got, want)
		}
	}
	if got := operationOf(table, "PATCH", "/api/v1/cards/c1/sensitive;a"); got != "other" {
		t.Errorf("a method without patterns: %s", got)
	}
}

// decorations are what a lenient server drops from the end of a segment.
var decorations = rapid.OneOf(
	rapid.StringMatching(`;[a-z0-9=;.]{0,5}`),
	rapid.StringMatching(`\.[a-z0-9.]{0,5}`),
	rapid.StringMatching(`(%20|\+|%C2%A0|%E2%80%8B|%A0){1,3}`),
	rapid.StringMatching(`(%2520|%253B[a-z]?|%252Ejson)`),
)

// TestNoDecorationChangesTheOperation draws patterns and decorates the literals
// of a target that matches one: such a target is never another operation.
func TestNoDecorationChangesTheOperation(t *testing.T) {
	word := rapid.StringMatching(`[a-z]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.Bool(), 1, 4).Draw(t, "placeholders")
		pattern, beside, target := "", "", ""
		decorated := false
		for i, placeholder := range shape {
			literal := word.Draw(t, "literal")
			beside += "/{any}"
			if placeholder && i > 0 {
				pattern += "/{id}"
				target += "/" + rapid.StringMatching(`[a-z0-9][a-z0-9;.]{0,3}`).Draw(t, "id")
				continue
			}
			pattern += "/" + literal
			target += "/" + rapid.SampledFrom([]string{"", "", "%20", "+"}).Draw(t, "before") + literal
			if rapid.Bool().Draw(t, "decorate") {
				target += decorations.Draw(t, "decoration")
			}
			decorated = decorated || !strings.HasSuffix(target, "/"+literal)
		}
		defs := []auth.OperationDef{{Name: "drawn", Method: "GET", Pattern: "/api/v1" + pattern, Scope: "a:b"}}
		if rapid.Bool().Draw(t, "beside a pattern of placeholders") {
			defs = append(defs, auth.OperationDef{Name: "beside", Method: "GET", Pattern: "/api/v1" + beside, Scope: "a:c"})
		}
		table, err := auth.NewTable(defs)
		if err != nil {
			return // the literals are those of a built-in operation
		}
		want := "drawn"
		if decorated {
			want = "bad_target"
		}
		for _, end := range []string{"", "/"} {
			raw := "/api/v1" + target + end
			if got := operationOf(table, "GET", raw); got != want {
				t.Fatalf("%s beside %s is %s, want %s", raw, pattern, got, want)
			}
		}
	})
}

// TestOperationsOutliveFolding demands that a target which is not refused is
// the same operation with the same scope when a server folds its segments.
func TestOperationsOutliveFolding(t *testing.T) {
	table := newTable(t,
		auth.OperationDef{Name: "all", Method: "GET", Pattern: "/api/v1/cards/export", Scope: "cards:export"},
		auth.OperationDef{Name: "all", Method: "GET", Pattern: "/api/v1/cards", Scope: "cards:read"},
	)
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"cards", "card", "sensitive", "export", "balance", "transactions", "customers", "c1"}),
		rapid.StringMatching(`[a-z.;+ %]{1,4}`),
	)
	rapid.Check(t, func(t *rapid.T) {
		var raw, folded strings.Builder
		for range rapid.IntRange(1, 4).Draw(t, "segments") {
			s := part.Draw(t, "part") + rapid.SampledFrom([]string{"", "", ";", ".", " ", ".json", ";a=b", " ;", ". ."}).Draw(t, "behind")
			raw.WriteString("/" + strings.ReplaceAll(url.PathEscape(s), "%3B", ";"))
			folded.WriteString("/" + url.PathEscape(fold(s)))
		}
		sent, scope := needOf(table, "GET", "/api/v1"+raw.String())
		if sent == "bad_target" {
			return
		}
		if got, needs := needOf(table, "GET", "/api/v1"+folded.String()); got != sent || needs != scope {
			t.Fatalf("%s is %s (%s), and folded to %s it is %s (%s)", raw.String(), sent, scope, folded.String(), got, needs)
		}
	})
}

// fold makes all changes to a segment that lenient servers make.
func fold(s string) string {
	s, _, _ = strings.Cut(s, ";")
	s = strings.Trim(s, " +")
	if i := strings.IndexByte(s, '.'); i > 0 {
		s = s[:i]
	}
	return strings.Trim(s, " +")
}
