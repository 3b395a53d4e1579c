package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/card-gateway/card-gateway"

// An importRule says what the packages of a directory may import besides the
// standard library. "…/" at the end means whatever is below.
type importRule struct {
	dir    string   // below the module, "." for its root
	ours   []string // packages of ours, below the module
	others []string // anybody else's
	reason string   // why no more, for whoever reads the failure
}

var importRules = []importRule{
	{
		dir: "auth", ours: []string{"ratelimit"},
		reason: "an integrator who imports auth for its signing client gets the standard library and nothing more",
	},
	{
		dir:    "ratelimit",
		reason: "limits are arithmetic with the time as an argument; they need nobody",
	},
	{
		dir: "translate", others: []string{"github.com/go-json-experiment/json/…/", "github.com/biter777/countries", "golang.org/x/net/idna"},
		reason: "translation is text in, text out; it knows no keys, no stores and no server",
	},
	{
		dir: "store", ours: []string{"auth", "ratelimit"},
		others: []string{"github.com/go-json-experiment/json/…/", "golang.org/x/sync/singleflight", "golang.org/x/time/rate"},
		reason: "the contract must not know its backends, or they could not be told apart from it",
	},
	{
		dir: "store/file", ours: []string{"auth", "ratelimit", "store"},
		others: []string{"golang.org/x/sys/unix", "github.com/gofrs/flock"},
		reason: "a backend knows the contract and nothing above it",
	},
	{
		dir: "store/redis", ours: []string{"auth", "ratelimit", "store"},
		others: []string{"github.com/redis/go-redis/v9/…/", "github.com/sony/gobreaker/v2", "golang.org/x/sync/singleflight"},
		reason: "a backend knows the contract and nothing above it; only this one knows Redis",
	},
	{
		dir: "store/storetest", ours: []string{"auth", "ratelimit", "store"},
		others: []string{"pgregory.net/rapid", "github.com/anishathalye/porcupine"},
		reason: "every backend runs the suite, so it can know none of them",
	},
	{
		dir:    "sandbox/issuer",
		reason: "the sandbox issuer stands for somebody else's system; it must not share code with the gateway it is to be trusted against",
	},
	{
		dir: "sandbox", ours: []string{"sandbox/issuer"}, others: []string{"github.com/caddyserver/caddy/v2/…/"},
		reason: "the sandbox talks to the gateway over HTTP only, as an issuer would",
	},
	{
		dir: "caddymodule", ours: []string{"auth", "ratelimit", "store", "store/file", "store/redis", "translate"},
		others: []string{"…/"},
		reason: "the sandbox must never be part of a production build",
	},
	{
		dir: ".", ours: []string{"caddymodule"},
		reason: "xcaddy builds what the root imports: the gateway, and never the sandbox",
	},
	{
		dir: "cmd/card-gateway", ours: []string{"caddymodule", "sandbox"}, others: []string{"github.com/caddyserver/caddy/v2/…/"},
		reason: "main puts the parts together and does nothing itself",
	},
	{
		dir: "ops/dashboard", others: []string{"…/"},
		reason: "what draws the dashboard speaks to operators, not to the gateway",
	},
	{
		dir:    "tests",
		reason: "this directory has tests only",
	},
}

// A goPackage is what `go list` says of a package.
type goPackage struct {
	ImportPath                         string
	Standard                           bool
	Imports, TestImports, XTestImports []string
}

func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports,TestImports,XTestImports"}, args...)...)
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("reading the output of %v: %v", cmd, err)
		}
		all = append(all, p)
	}
}

// below returns the directory of a package of ours, "." for the root.
func below(path string) (dir string, ours bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func (r *importRule) allows(path string) bool {
	if isStandard(path) {
		return true
	}
	if dir, ours := below(path); ours {
		return slices.Contains(r.ours, dir)
	}
	return slices.ContainsFunc(r.others, func(allowed string) bool {
		tree, isTree := strings.CutSuffix(allowed, "…/")
		return path == allowed || isTree && strings.HasPrefix(path+"/", tree)
	})
}

// TestImportsPointOneWay keeps the packages in the order that lets each be
// read, tested and used without those above it.
func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "./...") {
		dir, _ := below(p.ImportPath)
		at := slices.IndexFunc(importRules, func(r importRule) bool { return r.dir == dir })
		if at < 0 {
			t.Errorf("package %s has no rule: say in tests/imports_test.go what it may import, and why no more", dir)
			continue
		}
		rule := &importRules[at]
		for _, path := range p.Imports {
			if !rule.allows(path) {
				t.Errorf("package %s imports %s, which it must not: %s", dir, path, rule.reason)
			}
		}
	}
}

// TestNobodyImportsTheCaddyModule holds for tests too.
func TestNobodyImportsTheCaddyModule(t *testing.T) {
	t.Parallel()
	may := []string{".", "caddymodule", "cmd/card-gateway", "tests"}
	for _, p := range goList(t, "./...") {
		dir, _ := below(p.ImportPath)
		if slices.Contains(may, dir) {
			continue
		}
		if slices.Contains(slices.Concat(p.TestImports, p.XTestImports), module+"/caddymodule") {
			t.Errorf("the tests of package %s import caddymodule: what needs the whole gateway belongs into tests/", dir)
		}
	}
}

// TestPrometheusAndZapStayInTheCaddyModule also looks at what is imported
// indirectly: a metric or a log line that hides below would be a second place
// where the gateway speaks to operators.
func TestPrometheusAndZapStayInTheCaddyModule(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"auth", "ratelimit", "translate", "store", "store/file", "store/redis"} {
		for _, p := range goList(t, "-deps", "./"+dir) {
			for _, library := range []string{"github.com/prometheus/", "go.uber.org/zap", "github.com/caddyserver/"} {
				if strings.HasPrefix(p.ImportPath, library) {
					t.Errorf("package %s depends on %s: metrics, logs and Caddy are caddymodule's alone; return what is to be told", dir, p.ImportPath)
				}
			}
		}
	}
}

// TestSigningClientIsStandardLibrary looks at all that comes with auth.
func TestSigningClientIsStandardLibrary(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "-deps", "./auth") {
		if _, ours := below(p.ImportPath); !ours && !p.Standard {
			t.Errorf("package auth depends on %s: %s", p.ImportPath, importRules[0].reason)
		}
	}
}
