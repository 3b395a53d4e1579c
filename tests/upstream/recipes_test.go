// Package upstream tests the recipes of examples/upstream: what an issuer does with
// the assertion of a request.
package upstream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// leastTampered is how many tampered requests each recipe must refuse.
const leastTampered = 40

// A recipe is one directory of examples/upstream.
type recipe struct {
	name string
	// prepare makes a copy of the directory ready and returns the command that
	// runs its check. missing says what is not installed.
	prepare func(t *testing.T, dir string) (cmd []string, missing string)
}

var recipes = []recipe{{"go", prepareGo}, {"node", prepareNode}, {"python", preparePython}, {"java", prepareJava}}

func prepareGo(t *testing.T, dir string) (cmd []string, missing string) {
	program := filepath.Join(t.TempDir(), "check")
	run(t, dir, "go", "build", "-o", program, "./check")
	return []string{program}, ""
}

func prepareNode(_ *testing.T, dir string) (cmd []string, missing string) {
	if missing := missingOf("node", "npm"); missing != "" {
		return nil, missing
	}
	install := exec.Command("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		return nil, "the package jose (npm install: " + strings.TrimSpace(string(out)) + ")"
	}
	return []string{"node", "check.mjs"}, ""
}

func preparePython(*testing.T, string) (cmd []string, missing string) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import jwt, cryptography").Run() == nil {
			return []string{python, "check.py"}, ""
		}
	}
	return nil, "PyJWT with cryptography (the package python3-jwt)"
}

func prepareJava(t *testing.T, dir string) (cmd []string, missing string) {
	if missing := missingOf("java", "javac"); missing != "" {
		return nil, missing
	}
	classes := t.TempDir()
	run(t, dir, "javac", "-Xlint:all", "-Werror", "-d", classes, "Check.java", "Assertion.java", "Json.java")
	return []string{"java", "-cp", classes, "Check"}, ""
}

func missingOf(programs ...string) string {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return program
		}
	}
	return ""
}

func run(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// TestRecipes lets the gateway forward a request, and gives each recipe that request
// and many that an attacker could make of it. Each must accept the first once,
// refuse all others, and name what is wrong with them.
func TestRecipes(t *testing.T) {
	t.Parallel()
	requests := make(map[string][]request)
	keys := make(map[string]map[string]any)
	for _, alg := range []string{"EdDSA", "HS256"} {
		g := forwarded(t, alg)
		requests[alg] = g.tampered()
		keys[alg] = g.keySet()
		tampered := 0
		for _, r := range requests[alg] {
			if r.want[0] != "accepted" {
				tampered++
			}
		}
		if tampered < leastTampered {
			t.Errorf("%s: %d tampered requests, want at least %d", alg, tampered, leastTampered)
		}
	}
	for _, recipe := range recipes {
		t.Run(recipe.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), recipe.name)
			if err := os.CopyFS(dir, os.DirFS("../../examples/upstream/"+recipe.name)); err != nil {
				t.Fatal(err)
			}
			cmd, missing := recipe.prepare(t, dir)
			switch {
			case missing == "":
			case os.Getenv("CI") != "":
				t.Fatalf("the recipe was not tested: %s is missing; tests/install-tools.sh installs it", missing)
			default:
				t.Skipf("THE RECIPE WAS NOT TESTED: %s is missing", missing)
			}
			for alg, all := range requests {
				check(t, dir, cmd, keys[alg], all)
			}
		})
	}
}

// forwarded returns a request that the gateway has sent to its issuer.
func forwarded(t *testing.T, alg string) *genuine {
	t.Helper()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Assert: alg})
	key := g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, key.Request("POST", "/api/v1/cards?b=%2f&a=1", `{"amount":1,"currency":"EUR"}`)))
	got := u.One(t)
	words := strings.Fields(got.Line)
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(g.ReadFile("assert.key")))
	if err != nil {
		t.Fatal(err)
	}
	r := newGenuine(t, request{Assertions: got.Values("X-Gateway-Assertion"), Method: words[0], Target: words[1], Body: []byte(got.Body)}, alg, raw)
	r.Now = int64(r.claims["iat"].(float64))
	if alg == "EdDSA" {
		_, set := g.Admin("GET", "/card-gateway/jwks", "", "")
		if err := json.Unmarshal([]byte(set), &r.published); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// keySet returns the keys that the issuer has: those that the gateway publishes, or
// the secret.
func (g *genuine) keySet() map[string]any {
	if g.alg == "EdDSA" {
		return g.published
	}
	return map[string]any{"keys": []any{map[string]any{
		"kty": "oct", "alg": "HS256", "kid": g.header["kid"], "k": base64.RawURLEncoding.EncodeToString(g.key),
	}}}
}

// check runs a recipe over the requests, in their order.
func check(t *testing.T, dir string, command []string, keys map[string]any, requests []request) {
	t.Helper()
	var in bytes.Buffer
	encoder := json.NewEncoder(&in)
	lines := []any{map[string]any{"Keys": keys, "Issuer": "card-gateway", "Audience": harness.Audience}}
	for i := range requests {
		lines = append(lines, &requests[i])
	}
	for _, line := range lines {
		if err := encoder.Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stdin = dir, &in
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd, err, out, &stderr)
	}
	answers := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(answers) != len(requests) {
		t.Fatalf("%d answers to %d requests:\n%s", len(answers), len(requests), out)
	}
	for i, r := range requests {
		words := strings.Fields(answers[i])
		got := words[0]
		if got == "refused" {
			got = strings.Join(words[1:], " ")
		}
		if !slices.Contains(r.want, got) {
			t.Errorf("%s: %s, want %q", r.name, answers[i], r.want)
		}
	}
}
