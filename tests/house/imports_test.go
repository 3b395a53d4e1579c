// Package house tests the dependencies between the packages and files of the
// module.
package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

const module = "github.com/card-gateway/card-gateway"

// An importRule is what the packages of a directory may import besides the
// standard library. "…/" at the end means every package below.
type importRule struct {
	dir    string   // below the module, "." for its root; "…/" at the end means every package below
	ours   []string // packages of this module
	others []string // packages of other modules
	reason string   // why no more; the test prints it
}

var importRules = []importRule{
	{
		dir: "auth", ours: []string{"ratelimit"},
		reason: "whether a request may pass is decided by pure code, from its inputs alone",
	},
	{
		dir: "sign", ours: []string{"auth"},
		reason: "an integrator who imports the signing client gets the standard library, auth's canonical forms and nothing more",
	},
	{
		dir: "explain", ours: []string{"auth"},
		reason: "what was wrong with a request follows from the request and the key alone; the gateway and card-explain must say the same",
	},
	{
		dir:    "ratelimit",
		reason: "limits are arithmetic with the time as an argument; they need nobody",
	},
	{
		dir:    "assertion",
		reason: "what an issuer can verify follows from the request and the key alone; it needs no library of JOSE to write one form",
	},
	{
		dir: "translate", others: []string{"github.com/go-json-experiment/json/…/", "github.com/biter777/countries", "golang.org/x/net/idna"},
		reason: "translation is text in, text out; it knows no keys, no stores and no server",
	},
	{
		dir:    "forward",
		reason: "it carries requests and reads answers; it knows no keys, no stores and no server",
	},
	{
		dir: "headers", ours: []string{"auth"},
		reason: "which headers pass follows from their names and the options; who sends them is not its business",
	},
	{
		dir: "held", ours: []string{"auth"},
		reason: "memory is counted for whoever holds it; what is held, and by which request, is not its business",
	},
	{
		dir: "gate", ours: []string{"auth", "held", "keys", "ratelimit", "store"},
		reason: "whether a request may pass is decided without a server, so that it can be read and tested from top to bottom; it writes no answer, no log and no metric",
	},
	{
		dir: "store", ours: []string{"auth", "ratelimit"},
		reason: "the contract must not know its backends, or they could not be told apart from it",
	},
	{
		dir: "keys", ours: []string{"auth", "ratelimit", "store"},
		others: []string{"github.com/go-json-experiment/json/…/", "golang.org/x/sync/singleflight", "golang.org/x/time/rate"},
		reason: "keys are kept in any backend, so this knows only the contract; who asks for a change is not its business",
	},
	{
		dir: "store/file", ours: []string{"auth", "ratelimit", "store"},
		others: []string{"golang.org/x/sys/unix", "github.com/gofrs/flock"},
		reason: "a backend knows the contract and nothing above it",
	},
	{
		dir: "store/redis/rpc", ours: []string{"store"},
		others: []string{"github.com/redis/go-redis/v9/…/", "github.com/sony/gobreaker/v2", "golang.org/x/sync/semaphore"},
		reason: "it calls one server; which servers hold the state, and what a call means, is not its business",
	},
	{
		dir: "store/redis/masters", ours: []string{"store", "store/redis/rpc"},
		others: []string{"github.com/redis/go-redis/v9", "github.com/sony/gobreaker/v2", "golang.org/x/sync/singleflight"},
		reason: "which servers hold the state, and since when, is known without knowing requests or records",
	},
	{
		dir: "store/redis", ours: []string{"auth", "ratelimit", "store", "store/redis/masters", "store/redis/rpc"}, others: []string{"github.com/redis/go-redis/v9"},
		reason: "a backend knows the contract and nothing above it; only this one and those below it know Redis",
	},
	{
		dir: "store/storetest/fill", ours: []string{"auth", "store", "store/file", "store/redis", "store/redis/rpc"},
		reason: "it fills any backend through the contract, and knows nothing above it",
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
		dir:    "caddymodule/secret",
		reason: "where a secret is found is one question with one answer; who asks does not matter",
	},
	{
		dir: "caddymodule/cli", ours: []string{"caddymodule/secret"}, others: []string{"github.com/caddyserver/caddy/v2/cmd", "github.com/spf13/cobra"},
		reason: "what the commands share knows none of them",
	},
	{
		dir: "caddymodule/version", others: []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap/…/"},
		reason: "what the binary is does not depend on what it does",
	},
	{
		dir: "caddymodule/auditfile", others: []string{"github.com/gofrs/flock", "golang.org/x/sys/unix"},
		reason: "the chain of the audit record holds whatever it is given; it knows no key and no server",
	},
	{
		dir:    "caddymodule/offenders",
		reason: "counting in bounded memory is arithmetic with the time as an argument",
	},
	{
		dir: "caddymodule/peek", others: []string{"github.com/caddyserver/caddy/v2/…/"},
		reason: "what Caddy does not offer is read in one place; what is done with it is decided elsewhere",
	},
	{
		dir: "caddymodule/routes", others: []string{"github.com/caddyserver/caddy/v2/…/"},
		reason: "which handlers are before and behind another one follows from the routes alone; what they do is not its business",
	},
	{
		dir: "caddymodule/logqueue", others: []string{"github.com/caddyserver/caddy/v2/…/", "github.com/prometheus/client_golang/…/", "go.uber.org/zap/…/", "golang.org/x/sys/unix"},
		reason: "a queue before a writer knows no line that goes through it",
	},
	{
		dir: "caddymodule/cardlog", others: []string{"github.com/caddyserver/caddy/v2/…/", "github.com/google/uuid", "go.uber.org/zap/…/"},
		reason: "the log format masks whatever it is given; it knows no request, no key and no app",
	},
	{
		dir: "caddymodule/keyadmin", ours: []string{"auth", "caddymodule/auditfile", "caddymodule/cli", "caddymodule/logqueue", "caddymodule/offenders", "caddymodule/secret", "caddymodule/version", "keys", "store", "store/file"}, others: []string{"…/"},
		reason: "the admin API is the only way to a running gateway, and card-keys a client of it like any other; neither reaches into handlers",
	},
	{
		dir: "caddymodule/console", ours: []string{"caddymodule/keyadmin"}, others: []string{"github.com/caddyserver/caddy/v2"},
		reason: "the console shows what the admin API answers, and knows nothing else",
	},
	{
		dir: "caddymodule/signcmd", ours: []string{"auth", "caddymodule/cli", "sign"}, others: []string{"…/"},
		reason: "card-sign signs as any client would: it needs no gateway and no store",
	},
	{
		dir: "caddymodule/unitcmd", ours: []string{"caddymodule/cli"}, others: []string{"…/"},
		reason: "card-unit runs the commands of the gateway as they are; it knows none of them",
	},
	{
		dir: "caddymodule/explaincmd", ours: []string{"auth", "caddymodule/cardlog", "caddymodule/cli", "caddymodule/keyadmin", "explain"}, others: []string{"…/"},
		reason: "card-explain judges a request by the rules alone; only what a gateway remembers comes from the admin API, as for card-keys",
	},
	{
		dir: "caddymodule",
		ours: []string{
			"assertion", "auth", "caddymodule/auditfile", "caddymodule/cardlog", "caddymodule/console", "caddymodule/explaincmd", "caddymodule/keyadmin", "caddymodule/logqueue", "caddymodule/offenders", "caddymodule/peek", "caddymodule/routes", "caddymodule/secret", "caddymodule/signcmd", "caddymodule/unitcmd", "caddymodule/version",
			"explain", "forward", "gate", "headers", "held", "keys", "ratelimit", "store", "store/file", "store/redis", "store/redis/rpc", "translate",
		},
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
		dir: "tests/harness", others: []string{"github.com/redis/go-redis/v9", "github.com/gofrs/flock", "golang.org/x/sys/unix"},
		reason: "what runs the gateway under test must share no code with it, or both could be wrong together",
	},
	{
		dir:    "tests/harness/clockshift",
		reason: "it is compiled into a gateway under test, and must change nothing there but the clock",
	},
	{
		dir: "tests/redistest", ours: []string{"tests/harness"}, others: []string{"github.com/redis/go-redis/v9/…/", "go.uber.org/goleak"},
		reason: "what starts the servers of the tests must not share code with what is tested against them",
	},
	{
		dir: "tests/scripts", others: []string{"github.com/caddyserver/caddy/v2/cmd", "github.com/rogpeppe/go-internal/testscript"},
		reason: "what runs the scripts of any command knows none of them",
	},
	{
		dir:    "tests/…/",
		reason: "these directories have tests only",
	},
}

// A goPackage is the output of `go list` for a package.
type goPackage struct {
	ImportPath, Dir                             string
	Standard                                    bool
	GoFiles, Imports, TestImports, XTestImports []string
}

func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	harness.DependOnSources(t)
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Standard,GoFiles,Imports,TestImports,XTestImports"}, args...)...)
	cmd.Dir = "../.."
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
	return slices.ContainsFunc(r.others, func(allowed string) bool { return covers(allowed, path) })
}

// covers reports whether a path is the allowed one, or below it.
func covers(allowed, path string) bool {
	tree, isTree := strings.CutSuffix(allowed, "…/")
	return path == allowed || isTree && strings.HasPrefix(path+"/", tree)
}

// TestImportsPointOneWay keeps the packages in one order, so that each can be
// read, tested and used without those above it.
func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "./...") {
		dir, _ := below(p.ImportPath)
		at := slices.IndexFunc(importRules, func(r importRule) bool { return covers(r.dir, dir) })
		if at < 0 {
			t.Errorf("package %s has no rule: say in tests/house/imports_test.go what it may import, and why no more", dir)
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

// TestNobodyImportsTheCaddyModule also checks the tests.
func TestNobodyImportsTheCaddyModule(t *testing.T) {
	t.Parallel()
	may := []string{".", "caddymodule", "cmd/card-gateway"}
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

// TestProductionHasNoSandbox also checks indirect imports, and the words that only
// the sandbox may use: nothing of it is in what xcaddy builds, which is the root.
func TestProductionHasNoSandbox(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "-deps", ".") {
		dir, ours := below(p.ImportPath)
		if !ours {
			continue
		}
		if strings.HasPrefix(dir, "sandbox") {
			t.Errorf("the production build contains %s", dir)
		}
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files in %s, %v", len(files), dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(file, "_test.go") && bytes.Contains(text, []byte("X-Sandbox")) {
				t.Errorf("%s knows a header of the sandbox", file)
			}
		}
	}
}

// TestPrometheusAndZapStayInTheCaddyModule also checks indirect imports: metrics
// and log lines belong in one package.
func TestPrometheusAndZapStayInTheCaddyModule(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"assertion", "auth", "explain", "forward", "keys", "ratelimit", "sign", "translate", "store", "store/file", "store/redis"} {
		for _, p := range goList(t, "-deps", "./"+dir) {
			for _, library := range []string{"github.com/prometheus/", "go.uber.org/zap", "github.com/caddyserver/"} {
				if strings.HasPrefix(p.ImportPath, library) {
					t.Errorf("package %s depends on %s: metrics, logs and Caddy are caddymodule's alone; return what is to be told", dir, p.ImportPath)
				}
			}
		}
	}
}

// TestPureAndClientCodeIsStandardLibrary also checks indirect imports.
func TestPureAndClientCodeIsStandardLibrary(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"assertion", "auth", "explain", "forward", "ratelimit", "sign"} {
		for _, p := range goList(t, "-deps", "./"+dir) {
			if _, ours := below(p.ImportPath); !ours && !p.Standard {
				t.Errorf("package %s depends on %s: it is the standard library alone, so that its decisions can be read to the end", dir, p.ImportPath)
			}
		}
	}
}

// TestAuthHasNoClockAndNoRandomNumbers keeps the first sentences of the packages
// true to the letter.
func TestAuthHasNoClockAndNoRandomNumbers(t *testing.T) {
	t.Parallel()
	var files []string
	for _, dir := range []string{"assertion", "auth", "explain"} {
		found, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil || len(found) == 0 {
			t.Fatalf("%d files in %s, %v", len(found), dir, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, impure := range []string{"time.Now", "time.Since", "time.Until", "\"crypto/rand\"", "\"math/rand", "\"os\"", "\"net/http/httptest\""} {
			if bytes.Contains(text, []byte(impure)) {
				t.Errorf("%s has %s: the judge gets the time and every random number as an argument, so that a decision can be repeated", file, impure)
			}
		}
	}
}
