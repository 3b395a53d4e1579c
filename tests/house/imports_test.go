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
		dir: "translate", others: []string{"github.com/go-json-experiment/json/…/", "github.com/biter777/countries", "golang.org/x/net/idna", "golang.org/x/text/unicode/norm"},
		reason: "translation is text in, text out; it knows no keys, no stores and no server",
	},
	{
		dir:    "share",
		reason: "who may have how much is arithmetic; what is shared out is not its business",
	},
	{
		dir: "forward", ours: []string{"share"},
		reason: "it carries requests and reads answers; it knows no keys, no stores and no server",
	},
	{
		dir: "headers", ours: []string{"auth"},
		reason: "which headers pass follows from their names and the options; who sends them is not its business",
	},
	{
		dir: "held", ours: []string{"auth", "share"},
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
		dir:    "keys/keyid",
		reason: "what an id is follows from its text and the id key alone",
	},
	{
		dir: "keys/keyring", ours: []string{"store"},
		reason: "what is sealed follows from the master keys and the record alone; who may change a key is not its business",
	},
	{
		dir: "keys/fields", ours: []string{"auth", "ratelimit", "store"}, others: []string{"github.com/go-json-experiment/json/…/"},
		reason: "which fields a key may have is decided by pure code, with the time as an argument",
	},
	{
		dir: "keys", ours: []string{"auth", "keys/fields", "keys/keyid", "keys/keyring", "ratelimit", "store"},
		others: []string{"golang.org/x/sync/singleflight", "golang.org/x/time/rate"},
		reason: "keys are kept in any backend, so this knows only the contract; who asks for a change is not its business",
	},
	{
		dir: "platform", others: []string{"golang.org/x/sys/unix"},
		reason: "what the operating system offers does not depend on what is stored",
	},
	{
		dir: "store/file/journal", ours: []string{"ratelimit", "store", "platform"},
		reason: "the journal carries entries and knows no keys; what an entry means is decided by the store that writes it",
	},
	{
		dir: "store/file", ours: []string{"auth", "ratelimit", "store", "store/file/journal", "platform"},
		others: []string{"github.com/gofrs/flock"},
		reason: "a backend knows the contract and nothing above it",
	},
	{
		dir: "store/redis/rpc", ours: []string{"store"},
		others: []string{"github.com/redis/go-redis/v9/…/", "golang.org/x/sync/semaphore"},
		reason: "it calls one server; which servers hold the state, and what a call means, is not its business",
	},
	{
		dir: "store/redis/masters", ours: []string{"store", "store/redis/rpc"},
		others: []string{"github.com/redis/go-redis/v9", "golang.org/x/sync/singleflight"},
		reason: "which servers hold the state, and since when, is known without knowing requests or records",
	},
	{
		dir: "store/redis", ours: []string{"auth", "ratelimit", "store", "store/redis/masters", "store/redis/rpc"}, others: []string{"github.com/redis/go-redis/v9"},
		reason: "a backend knows the contract and nothing above it; only this one and those below it know Redis",
	},
	{
		dir: "store/storetest/fill", ours: []string{"auth", "keys", "keys/keyring", "store", "store/file", "store/redis", "store/redis/rpc"},
		others: []string{"golang.org/x/sync/errgroup"},
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
		dir: "sandbox/debugger", ours: []string{"auth", "sign"}, others: []string{"github.com/caddyserver/caddy/v2/…/", "github.com/spf13/cobra"},
		reason: "the page shows what the signing client and card-explain do; it runs the command by its name, and knows nothing of a gateway",
	},
	{
		dir: "sandbox", ours: []string{"sandbox/issuer"}, others: []string{"github.com/caddyserver/caddy/v2/…/"},
		reason: "the sandbox talks to the gateway over HTTP only, as an issuer would",
	},
	{
		dir:    "secret",
		reason: "where a secret is found is one question with one answer; who asks does not matter",
	},
	{
		dir: "adminapi", ours: []string{"auditfile", "auth", "held", "keys", "keys/fields", "keys/keyring", "offenders", "ratelimit", "store"},
		reason: "a gateway and its clients share the values of the admin API; who answers with them and who prints them is not its business",
	},
	{
		dir: "caddymodule/version", ours: []string{"adminapi"}, others: []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap/…/"},
		reason: "what the binary is does not depend on what it does",
	},
	{
		dir: "auditfile", ours: []string{"platform"}, others: []string{"github.com/gofrs/flock"},
		reason: "the chain of the audit record holds whatever it is given; it knows no key and no server",
	},
	{
		dir:    "offenders",
		reason: "counting in bounded memory is arithmetic with the time as an argument",
	},
	{
		dir: "caddymodule/peek", others: []string{"github.com/caddyserver/caddy/v2/…/", "go.uber.org/zap/zapcore"},
		reason: "what Caddy does not offer is read in one place; what is done with it is decided elsewhere",
	},
	{
		dir: "caddymodule/routes", others: []string{"github.com/caddyserver/caddy/v2/…/"},
		reason: "which handlers are before and behind another one follows from the routes alone; what they do is not its business",
	},
	{
		dir: "caddymodule/logqueue", ours: []string{"platform"}, others: []string{"github.com/caddyserver/caddy/v2/…/", "github.com/prometheus/client_golang/…/", "go.uber.org/zap/…/"},
		reason: "a queue before a writer knows no line that goes through it",
	},
	{
		dir: "caddymodule/cardlog", others: []string{"github.com/caddyserver/caddy/v2/…/", "github.com/google/uuid", "go.uber.org/zap/…/"},
		reason: "the log format masks whatever it is given; it knows no request, no key and no app",
	},
	{
		dir: "caddymodule/admin", ours: []string{"adminapi", "auditfile", "caddymodule/logqueue", "caddymodule/peek", "caddymodule/version", "keys", "keys/fields", "store", "store/file"},
		others: []string{"github.com/caddyserver/caddy/v2", "golang.org/x/time/rate"},
		reason: "the admin API is the only way to a running gateway; it reaches into no handler, and knows no client",
	},
	{
		dir: "caddymodule/console", ours: []string{"caddymodule/admin", "caddymodule/directive", "caddymodule/request"}, others: []string{"github.com/caddyserver/caddy/v2/…/"},
		reason: "the console shows what the admin API answers, and knows nothing else",
	},
	{
		dir: "caddymodule/directive", ours: []string{"headers", "secret"}, others: []string{"github.com/caddyserver/caddy/v2/…/", "github.com/dustin/go-humanize"},
		reason: "how a line of the Caddyfile is read does not depend on the option",
	},
	{
		dir: "caddymodule/meter", ours: []string{"auth", "caddymodule/cardlog", "caddymodule/version", "gate", "held", "keys", "ratelimit", "store", "store/redis/rpc"},
		others: []string{"github.com/prometheus/client_golang/…/", "github.com/prometheus/client_model/go", "go.opentelemetry.io/otel/…/"},
		reason: "what counts does not know who calls it",
	},
	{
		dir: "caddymodule/audit", ours: []string{"adminapi", "auditfile", "auth", "caddymodule/cardlog", "caddymodule/logqueue", "caddymodule/peek", "keys", "store"},
		others: []string{"github.com/prometheus/client_golang/…/", "go.uber.org/zap/…/"},
		reason: "the audit record is written for whoever changes something; it knows no handler",
	},
	{
		dir: "caddymodule/node", ours: []string{"adminapi", "auth", "caddymodule/meter", "caddymodule/peek", "offenders", "platform", "ratelimit"},
		others: []string{"github.com/caddyserver/caddy/v2/…/", "github.com/caddyserver/certmagic", "go.uber.org/zap/…/", "golang.org/x/sys/unix"},
		reason: "what outlives a configuration knows none",
	},
	{
		dir: "caddymodule/settings", ours: []string{"auth", "caddymodule/directive", "held", "ratelimit", "secret", "store"},
		others: []string{"github.com/caddyserver/caddy/v2/…/"},
		reason: "what the options come to does not depend on who is bound by them",
	},
	{
		dir: "caddymodule/stores", ours: []string{"caddymodule/directive", "caddymodule/meter", "caddymodule/node", "keys", "platform", "secret", "store", "store/file", "store/redis", "store/redis/masters", "store/redis/rpc"},
		others: []string{"github.com/caddyserver/caddy/v2/…/", "go.uber.org/zap/…/"},
		reason: "a backend is opened and kept for whoever asks",
	},
	{
		dir: "caddymodule/request", ours: []string{"assertion", "auth", "caddymodule/cardlog", "caddymodule/meter", "caddymodule/node", "caddymodule/peek", "headers", "held", "platform", "ratelimit", "share"},
		others: []string{"github.com/caddyserver/caddy/v2/…/", "go.opentelemetry.io/otel/…/", "go.uber.org/zap/…/"},
		reason: "what is carried knows none of the handlers that it is carried through, and no store",
	},
	{
		dir: "caddymodule/issuer", ours: []string{"auth", "caddymodule/directive", "caddymodule/meter", "caddymodule/node", "caddymodule/request", "forward", "headers", "held"},
		others: []string{"github.com/caddyserver/caddy/v2/…/", "go.uber.org/zap/…/"},
		reason: "a request that is forwarded was decided about before: it knows no key, no store and no other handler",
	},
	{
		dir: "caddymodule/translating", ours: []string{"auth", "caddymodule/cardlog", "caddymodule/directive", "caddymodule/meter", "caddymodule/request", "headers", "held", "translate"},
		others: []string{"github.com/caddyserver/caddy/v2/…/"},
		reason: "a request that is translated was decided about before: it knows no key, no store and no other handler",
	},
	{
		dir: "caddymodule/self", ours: []string{"adminapi", "auth", "caddymodule/directive", "caddymodule/request", "gate", "keys", "keys/keyid", "store"},
		others: []string{"github.com/caddyserver/caddy/v2/…/"},
		reason: "card_self asks the app for the keys and their limits, and knows no other handler",
	},
	{
		dir: "caddymodule",
		ours: []string{
			"adminapi", "assertion", "auditfile", "auth", "explain", "gate", "headers", "held", "keys", "keys/keyid", "keys/keyring", "platform", "ratelimit", "secret", "store", "store/redis",
			"caddymodule/admin", "caddymodule/audit", "caddymodule/cardlog", "caddymodule/console", "caddymodule/directive", "caddymodule/issuer", "caddymodule/logqueue", "caddymodule/meter", "caddymodule/node", "caddymodule/peek",
			"caddymodule/request", "caddymodule/routes", "caddymodule/self", "caddymodule/settings", "caddymodule/stores", "caddymodule/translating", "caddymodule/version",
		},
		others: []string{"…/"},
		reason: "the sandbox must never be part of a production build",
	},
	{
		dir: "commands/cli", ours: []string{"adminapi", "secret"}, others: []string{"github.com/caddyserver/caddy/v2/…/", "github.com/spf13/cobra", "github.com/spf13/pflag"},
		reason: "what the commands share knows none of them, and a gateway only through the admin API",
	},
	{
		dir: "commands/cardkeys", ours: []string{"adminapi", "auditfile", "commands/cli", "keys", "keys/keyring", "secret", "store/file"}, others: []string{"github.com/caddyserver/caddy/v2/…/", "github.com/spf13/cobra", "golang.org/x/term"},
		reason: "card-keys is a client of the admin API like any other: it shares its values with the gateway, and no code",
	},
	{
		dir: "commands/cardstatus", ours: []string{"adminapi", "commands/cli", "keys"}, others: []string{"github.com/caddyserver/caddy/v2/…/", "github.com/spf13/cobra"},
		reason: "card-status and card-node are clients of the admin API like any other: they share its values with the gateway, and no code",
	},
	{
		dir: "commands/cardexplain", ours: []string{"adminapi", "auth", "caddymodule/cardlog", "commands/cli", "explain", "keys/keyid"}, others: []string{"github.com/caddyserver/caddy/v2/cmd", "github.com/spf13/cobra"},
		reason: "card-explain judges a request by the rules alone; only what a gateway remembers comes from the admin API, as for card-keys",
	},
	{
		dir: "commands/cardsign", ours: []string{"auth", "commands/cli", "sign"}, others: []string{"github.com/caddyserver/caddy/v2/cmd", "github.com/spf13/cobra"},
		reason: "card-sign signs as any client would: it needs no gateway and no store",
	},
	{
		dir: "commands/cardunit", ours: []string{"commands/cli"}, others: []string{"github.com/caddyserver/caddy/v2/cmd", "github.com/spf13/cobra"},
		reason: "card-unit runs the commands of the gateway as they are; it knows none of them",
	},
	{
		dir:    "commands/carddoctor",
		ours:   []string{"adminapi", "caddymodule/issuer", "caddymodule/node", "caddymodule/stores", "commands/cardunit", "commands/cli", "forward", "keys", "platform", "secret", "store", "store/redis/masters"},
		others: []string{"github.com/caddyserver/caddy/v2/…/", "github.com/spf13/cobra"},
		reason: "card-doctor asks servers and issuers by the code that asks them in a gateway, so that no rule is written twice; a running gateway it knows only through the admin API",
	},
	{
		dir: "commands", ours: []string{"commands/carddoctor", "commands/cardexplain", "commands/cardkeys", "commands/cardsign", "commands/cardstatus", "commands/cardunit"},
		reason: "it names the commands and does nothing itself",
	},
	{
		dir: ".", ours: []string{"caddymodule", "commands"},
		reason: "xcaddy builds what the root imports: the gateway and its commands, and never the sandbox",
	},
	{
		dir: "cmd/card-gateway", ours: []string{"caddymodule", "commands", "sandbox", "sandbox/debugger"}, others: []string{"github.com/caddyserver/caddy/v2/…/"},
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
		dir: "tests/mistakes", ours: []string{"tests/harness"},
		reason: "what makes mistakes in signing must share no code with what finds them",
	},
	{
		dir: "tests/scripts", others: []string{"github.com/caddyserver/caddy/v2/cmd", "github.com/rogpeppe/go-internal/testscript"},
		reason: "what runs the scripts of any command knows none of them",
	},
	{
		dir: "tests/adminserver", ours: []string{"keys", "keys/keyring", "store/file"}, others: []string{"github.com/caddyserver/caddy/v2"},
		reason: "the tests of the admin API use it as those of its clients do, so it can know neither",
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
	for _, dir := range []string{"adminapi", "assertion", "auditfile", "auth", "explain", "forward", "keys", "offenders", "ratelimit", "secret", "share", "sign", "translate", "store", "store/file", "store/redis"} {
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
	for _, dir := range []string{"assertion", "auth", "explain", "forward", "offenders", "ratelimit", "secret", "share", "sign"} {
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
