package auth_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
)

// drawLines draws definitions of a few names, also that of a built-in operation,
// with several scopes for one name. No two match the same paths.
func drawLines(t *rapid.T) (lines []auth.OperationDef) {
	shapes := make(map[string]bool)
	for _, d := range rapid.SliceOfN(rapid.Custom(func(t *rapid.T) auth.OperationDef {
		segment := rapid.SampledFrom([]string{"a", "b", "C", "{x}", "{y}"})
		return auth.OperationDef{
			Name:    rapid.SampledFrom([]string{"hooks", "files", "get_card"}).Draw(t, "name"),
			Method:  rapid.SampledFrom([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}).Draw(t, "method"),
			Pattern: "/api/v1/" + strings.Join(rapid.SliceOfN(segment, 1, 3).Draw(t, "segments"), "/"),
			Scope:   rapid.SampledFrom([]string{"hooks:read", "hooks:write", "files:read", auth.ScopeSensitive}).Draw(t, "scope"),
		}
	}), 0, 20).Draw(t, "lines") {
		shape := d.Method + strings.NewReplacer("{x}", "{}", "{y}", "{}").Replace(d.Pattern)
		if !shapes[shape] {
			shapes[shape] = true
			lines = append(lines, d)
		}
	}
	return lines
}

// matchedLine returns the line that a request matches, or nil. Of several it is
// the one with a literal further left.
func matchedLine(lines []auth.OperationDef, method, path string) (matched *auth.OperationDef) {
	if method == "HEAD" {
		method = "GET"
	}
	parts, best := strings.Split(strings.TrimSuffix(path, "/"), "/"), ""
	for i := range lines {
		pattern := strings.Split(lines[i].Pattern, "/")
		if lines[i].Method != method || len(pattern) != len(parts) {
			continue
		}
		literals := "" // a 1 for each literal, a 0 for each placeholder
		for j, p := range pattern {
			switch {
			case strings.HasPrefix(p, "{"):
				literals += "0"
			case strings.EqualFold(p, parts[j]):
				literals += "1"
			}
		}
		if len(literals) == len(pattern) && literals > best {
			matched, best = &lines[i], literals
		}
	}
	return matched
}

// TestScopeIsThatOfTheMatchedLine: a request needs the scope of the line that it
// matches, whatever the other lines of the operation need.
func TestScopeIsThatOfTheMatchedLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := drawLines(t)
		table, err := auth.NewTable(lines)
		if err != nil {
			t.Fatal(err)
		}
		segment := rapid.SampledFrom([]string{"a", "B", "c", "d"})
		for range 10 {
			method := rapid.SampledFrom([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}).Draw(t, "method")
			path := "/api/v1/" + strings.Join(rapid.SliceOfN(segment, 1, 3).Draw(t, "path"), "/") + rapid.SampledFrom([]string{"", "/"}).Draw(t, "end")
			wantName, wantScope := auth.OtherOperation, auth.ScopeAll
			if line := matchedLine(lines, method, path); line != nil {
				wantName, wantScope = line.Name, line.Scope
			}
			op, scope, refusal := table.Match(method, path)
			if refusal != nil || op != table.ByName(wantName) || scope != wantScope || !slices.Contains(op.Scopes, scope) {
				t.Fatalf("%s %s is %+v with the scope %q, %v; want %s with %q", method, path, op, scope, refusal, wantName, wantScope)
			}
		}
		for _, line := range lines {
			if op := table.ByName(line.Name); !slices.Contains(op.Routes, auth.Route{Method: line.Method, Pattern: line.Pattern, Scope: line.Scope}) {
				t.Fatalf("%+v lacks the route of %+v", op, line)
			}
		}
	})
}
