// Package clients tests the signing clients against the gateway.
package clients

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/tests/harness"
)

// clientsOfTheGuide are the programs that docs/signing.md shows, or names in
// examples/signing, and the command that runs them.
var clientsOfTheGuide = []struct {
	file  string
	needs []string
	run   []string
}{
	{"card-request.sh", []string{"bash", "openssl", "curl"}, []string{"bash"}},
	{"card_request.py", []string{"python3"}, []string{"python3"}},
	{"card-request.mjs", []string{"node"}, []string{"node"}},
}

// TestClientsOfTheGuide runs the programs of docs/signing.md, as they stand,
// against the gateway, if their language is installed.
func TestClientsOfTheGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/signing.md")
	if err != nil {
		t.Fatal(err)
	}
	u := harness.StartUpstream(t)
	u.Trusts("the clients under test send")
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	for _, client := range clientsOfTheGuide {
		t.Run(client.file, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), client.file)
			if err := os.WriteFile(path, []byte(program(t, string(guide), client.file)), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, tool := range client.needs {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("%s is not installed; its client was only extracted", tool)
				}
			}
			conforms(t, g, u, func(method, url, body string) *exec.Cmd {
				args := append(client.run[1:len(client.run):len(client.run)], path, method, url)
				if body != "" {
					args = append(args, body)
				}
				cmd := exec.Command(client.run[0], args...)
				cmd.Env = append(os.Environ(), "CARD_KEY_ID="+key.ID, "CARD_SECRET="+key.Secret)
				return cmd
			})
		})
	}
}

// TestClientsOfTheGuideKeepTheirHeaders: no client follows a redirect, because
// that would send its signed headers to another host. Each client fails when
// its request is refused.
func TestClientsOfTheGuideKeepTheirHeaders(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/signing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range clientsOfTheGuide {
		t.Run(client.file, func(t *testing.T) {
			for _, tool := range client.needs {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("%s is not installed", tool)
				}
			}
			path := filepath.Join(t.TempDir(), client.file)
			if err := os.WriteFile(path, []byte(program(t, string(guide), client.file)), 0o600); err != nil {
				t.Fatal(err)
			}
			var followed atomic.Bool
			other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Store(true) }))
			defer other.Close()
			for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusUnauthorized} {
				origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", other.URL)
					w.WriteHeader(status)
					fmt.Fprint(w, "refused")
				}))
				cmd := exec.Command(client.run[0], append(client.run[1:len(client.run):len(client.run)], path, "GET", origin.URL+"/api/v1/x")...)
				cmd.Env = append(os.Environ(), "CARD_KEY_ID=ck_test_x", "CARD_SECRET=0123456789abcdef")
				out, err := cmd.CombinedOutput()
				origin.Close()
				if status >= 400 && err == nil || !strings.Contains(string(out), "refused") {
					t.Errorf("after %d: %v\n%s", status, err, out)
				}
			}
			if followed.Load() {
				t.Error("a redirect was followed")
			}
		})
	}
}

// program returns the fenced block of the guide that names the file, or the file
// to which the guide links.
func program(t testing.TB, guide, file string) string {
	t.Helper()
	if strings.Contains(guide, "](../examples/signing/"+file+")") {
		text, err := os.ReadFile("../../examples/signing/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for i, block := range strings.Split(guide, "```") {
		if i%2 == 1 && strings.Contains(block, file+" METHOD") {
			_, code, _ := strings.Cut(block, "\n")
			return code
		}
	}
	t.Fatalf("docs/signing.md shows no %s", file)
	return ""
}

// conforms sends requests that clients often sign wrongly.
func conforms(t *testing.T, g *harness.Gateway, u *harness.Upstream, client func(method, url, body string) *exec.Cmd) {
	for _, c := range []struct{ method, target, body string }{
		{"GET", "/api/v1/transactions?limit=20&offset=0", ""},
		{"GET", "/api/v1/orders?q=a%20b&q=a+b&next=%2fhome%3Fa%3d1&t=%7Ex", ""},
		{"DELETE", "/api/v1/orders/1", ""},
		{"POST", "/api/v1/cards", `{"name":"Zoë","amount":1.10, "a":"\u00e9"}`},
		{"PATCH", "/api/v1/caf%C3%A9/1", `{ "b":1,  "a":2 }`},
	} {
		out, err := client(c.method, "http://"+g.Addr+c.target, c.body).CombinedOutput()
		if err != nil || !strings.Contains(string(out), `{"ok":true}`) {
			t.Errorf("%s %s: %v\n%s", c.method, c.target, err, out)
			continue
		}
		if got := u.One(t); got.Line != c.method+" "+c.target+" HTTP/1.1" || got.Body != c.body {
			t.Errorf("%s %s reached the upstream as\n%s", c.method, c.target, got.Raw())
		}
	}
}

// TestCardSign sends and prints requests with the command that comes with the
// gateway.
func TestCardSign(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	u.Trusts("the clients under test send")
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	sign := func(method, url, body string, more ...string) *exec.Cmd {
		args := append([]string{"card-sign", method, url}, more...)
		if body != "" {
			args = append(args, "-d", body)
		}
		cmd := g.Command(args...)
		cmd.Env = append(cmd.Env, "CARD_KEY_ID="+key.ID, "CARD_SECRET="+key.Secret)
		return cmd
	}
	t.Run("send", func(t *testing.T) {
		conforms(t, g, u, func(method, url, body string) *exec.Cmd { return sign(method, url, body) })
	})
	t.Run("curl", func(t *testing.T) {
		if _, err := exec.LookPath("curl"); err != nil {
			t.Skip("curl is not installed")
		}
		conforms(t, g, u, func(method, url, body string) *exec.Cmd {
			line, err := sign(method, url, body, "--curl").Output()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(line), key.Secret) {
				t.Error("the printed command shows the secret")
			}
			return exec.Command("sh", "-c", string(line))
		})
	})
	out, err := sign("GET", "http://"+g.Addr+"/api/v1//x", "").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "empty") {
		t.Errorf("a target that the gateway would refuse is signed: %v\n%s", err, out)
	}
	out, err = sign("BREW", "http://"+g.Addr+"/api/v1/x", "").CombinedOutput()
	if err == nil {
		t.Errorf("a method that the gateway would refuse is signed:\n%s", out)
	}
	u.None(t)
}

// TestGoClient sends requests through the signing transport of package sign.
func TestGoClient(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	u.Trusts("the clients under test send")
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	client := http.Client{Transport: &sign.Transport{Signer: sign.Signer{KeyID: key.ID, Secret: key.Secret}}}
	defer client.CloseIdleConnections()
	for _, c := range []struct{ method, target, body string }{
		{"GET", "/api/v1/transactions?limit=20", ""},
		{"GET", "/api/v1/orders?", ""},
		{"GET", "/api/v1/orders?q=a%20b&q=a+b&&next=%2fhome%3Fa%3d1&v", ""},
		{"POST", "/api/v1/cards", `{"name":"Zoë"}`},
		{"PUT", "/api/v1/caf%c3%a9/1", strings.Repeat("x", 100_000)},
	} {
		r, err := http.NewRequest(c.method, "http://"+g.Addr+c.target, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %d %s", c.method, c.target, answer.StatusCode, body)
			continue
		}
		if got := u.One(t); got.Line != c.method+" "+c.target+" HTTP/1.1" || got.Body != c.body {
			t.Errorf("%s %s reached the upstream as\n%.300s", c.method, c.target, got.Raw())
		}
	}
}
