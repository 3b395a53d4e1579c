// Package openapi holds docs/openapi.yaml against the gateway: against its tables of
// operations, limits and reasons, against the headers that its sources name, and
// against the answers of the gateway and the sandbox. It is a module of its own,
// so that what reads and validates OpenAPI is no dependency of the gateway.
package openapi

import (
	"os"
	"regexp"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

func load(t testing.TB) *document.Document {
	t.Helper()
	d, err := document.Load()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// declared returns the lines of Caddyfile.example that declare operations.
func declared(t testing.TB) (lines string, defs []auth.OperationDef, maxBody map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	maxBody = make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^\s+operation (\w+) ([A-Z]+) (\S+) (\S+)(?: max_body (\S+))?$`).FindAllStringSubmatch(string(text), -1) {
		lines += m[0] + "\n"
		defs = append(defs, auth.OperationDef{Name: m[1], Method: m[2], Pattern: m[3], Scope: m[4]})
		if m[5] != "" {
			maxBody[m[1]] = m[5]
		}
	}
	return lines, defs, maxBody
}
