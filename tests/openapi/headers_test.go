package openapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/textproto"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

// aHeader is what the sources name that could be a header of an answer or of a
// request: what begins with X- and a capital, and the others that the gateway sets
// on its refusals.
var aHeader = regexp.MustCompile(`^(X-[A-Z][A-Za-z-]*|Ratelimit(-[A-Z][a-z]+)*|RateLimit(-[A-Z][a-z]+)*|Retry-After|Www-Authenticate|Allow)$`)

// notForClients are the headers that no client sends for the gateway to read, and
// none reads: between the gateway and the issuer, or of proxies.
var notForClients = map[string]string{
	"X-Gateway-Key-Id": "to the issuer", "X-Gateway-Tenant": "to the issuer", "X-Gateway-Scopes": "to the issuer",
	"X-Gateway-Operation": "to the issuer", "X-Gateway-": "to the issuer", "X-Gateway-Assertion": "to the issuer",
	"X-Forwarded-For": "of proxies", "X-Forwarded-Proto": "of proxies", "X-Forwarded-Host": "of proxies",
	"X-Correlation-Id":     "passes to the issuer; the gateway does not read it",
	"X-Idempotency-Key":    "passes to the issuer like Idempotency-Key",
	"X-Accel-Expires":      "of the issuer, removed",
	"X-Card-Gateway-Actor": "of the admin API",
	"X-B3-Spanid":          "of a trace, to the issuer",
	"X-Amzn-Trace-Id":      "of a trace, to the issuer",

	"X-Content-Type-Options": "of the console", "X-Frame-Options": "of the console",
}

// TestHeadersAreDocumented looks for names of headers in the sources of the gateway,
// and wants each in the document: as a parameter, a header of an answer, or a
// security scheme.
func TestHeadersAreDocumented(t *testing.T) {
	known := documented(load(t))
	found := make(map[string]bool)
	for _, dir := range []string{"adminapi", "auth", "caddymodule", "commands", "forward", "gate", "headers", "held", "ratelimit", "sandbox", "translate"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return headersIn(path, func(name string) {
				name = textproto.CanonicalMIMEHeaderKey(name)
				found[name] = true
				if !known[name] && notForClients[name] == "" {
					t.Errorf("%s names the header %s, which %s does not describe", path, name, document.Path)
				}
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, must := range []string{"X-Request-Id", "X-Ratelimit-Remaining", "X-Api-Key", "X-Gateway-Forwarded", "X-Sandbox", "Retry-After"} {
		if !found[must] {
			t.Errorf("the sources do not name %s any more; this test looks at nothing", must)
		}
	}
}

// documented returns the names of all headers that the document describes.
func documented(d *document.Document) map[string]bool {
	all := make(map[string]bool)
	add := func(name string) { all[textproto.CanonicalMIMEHeaderKey(name)] = true }
	for _, scheme := range d.Model.Components.SecuritySchemes.FromOldest() {
		add(scheme.Name)
	}
	for _, o := range d.Operations {
		for _, p := range o.Parameters {
			if p.In == "header" {
				add(p.Name)
			}
		}
		for _, response := range o.Responses.Codes.FromOldest() {
			for name := range response.Headers.FromOldest() {
				add(name)
			}
		}
	}
	return all
}

// headersIn calls visit for each text of a Go file that is the name of a header.
func headersIn(path string, visit func(name string)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if name, err := strconv.Unquote(literal.Value); err == nil && aHeader.MatchString(name) {
				visit(name)
			}
		}
		return true
	})
	return nil
}
