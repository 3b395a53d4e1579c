package ops

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

const fullKey = `{"tenant":"acme","scopes":["*"]}`

// askTCP makes a call of the key API on an admin endpoint on TCP.
func askTCP(t *testing.T, address, token string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+address+"/card-gateway/keys", strings.NewReader(fullKey))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(text)
}

// TestRefusedReloadOpensNoDoor reloads by hand, in an environment that moves the
// admin endpoint to TCP, a configuration that is refused. Caddy replaces the
// endpoint all the same, and it must not make keys for whoever can connect.
func TestRefusedReloadOpensNoDoor(t *testing.T) {
	t.Parallel()
	g := harness.StartGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	address := harness.FreeAddress(t)
	moved := strings.NewReplacer(
		"admin unix/"+g.Dir+"/admin.sock", "admin {$SOCKET_OF_THE_UNIT:"+address+"}",
		g.Path("master.key"), g.Path("no-such.key"),
	).Replace(g.Caddyfile())
	g.WriteFile("Caddyfile.moved", moved)
	out, err := g.Command("reload", "--config", g.Path("Caddyfile.moved"), "--adapter", "caddyfile", "--address", "unix/"+g.Path("admin.sock")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no-such.key") {
		t.Fatalf("the reload is not refused for its master key: %v\n%s", err, out)
	}
	for _, token := range []string{"", strings.Repeat("x", 64)} {
		if status, answer := askTCP(t, address, token); status/100 != 4 || strings.Contains(answer, "secret\":") {
			t.Errorf("with token %q the moved endpoint answers %d %s", token, status, answer)
		}
	}
	if status, answer := askTCP(t, address, ""); status != http.StatusForbidden || !strings.Contains(answer, "admin_token file PATH") {
		t.Errorf("the refusal does not say what to do: %d %s", status, answer)
	}
}

// TestTokenOnLoopback manages keys with a token where there is no socket, and
// changes the tokens by a reload.
func TestTokenOnLoopback(t *testing.T) {
	t.Parallel()
	address := harness.FreeAddress(t)
	token := strings.Repeat("0123456789abcdef", 4)
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	g.Site.Global = "admin_token file " + g.Path("tokens")
	g.WriteFile("tokens", "alice keys "+token+"\n")
	g.Start()
	onTCP := func() string { // reloads with the endpoint on TCP
		t.Helper()
		g.WriteFile("Caddyfile.tcp", strings.Replace(g.Caddyfile(), "admin unix/"+g.Dir+"/admin.sock", "admin "+address, 1))
		return g.Path("Caddyfile.tcp")
	}
	reload := func(from string) {
		t.Helper()
		if out, err := g.Command("reload", "--config", onTCP(), "--adapter", "caddyfile", "--address", from, "--force").CombinedOutput(); err != nil {
			t.Fatalf("reload: %v\n%s", err, out)
		}
	}
	reload("unix/" + g.Path("admin.sock"))
	if status, answer := askTCP(t, address, token); status != http.StatusCreated {
		t.Errorf("with the token: %d %s", status, answer)
	}
	list := g.Command("card-keys", "list", "--address", address, "--token-file", g.Path("tokens"))
	if out, err := list.CombinedOutput(); err != nil || !strings.Contains(string(out), "acme") {
		t.Errorf("card-keys with the file of the tokens: %v\n%s", err, out)
	}
	if out, err := g.Command("card-keys", "list", "--address", address).CombinedOutput(); err == nil || !strings.Contains(string(out), "--token-file") {
		t.Errorf("card-keys without a token: %v\n%s", err, out)
	}
	g.WriteFile("tokens", "alice viewer "+token+"\n")
	reload(address)
	if status, answer := askTCP(t, address, token); status != http.StatusForbidden || !strings.Contains(answer, "viewer") {
		t.Errorf("as a viewer: %d %s", status, answer)
	}
	g.WriteFile("tokens", "bob keys "+strings.ToUpper(token)+"\n")
	reload(address)
	if status, _ := askTCP(t, address, token); status != http.StatusUnauthorized {
		t.Errorf("a token that is gone: %d", status)
	}
	if err := os.Chmod(g.Path("tokens"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := g.Command("reload", "--config", onTCP(), "--adapter", "caddyfile", "--address", address, "--force").CombinedOutput(); err == nil || !strings.Contains(string(out), "chmod 0640") {
		t.Errorf("a file of tokens that everybody can read: %v\n%s", err, out)
	}
}

// TestAdminEndpointIsWritten checks that no environment moves the admin endpoint
// of what is shipped for production.
func TestAdminEndpointIsWritten(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Caddyfile.example", "ops/card-gateway.service", "ops/Containerfile"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "CARD_GATEWAY_ADMIN") || strings.Contains(string(text), "admin {$") {
			t.Errorf("%s lets the environment choose the admin endpoint", name)
		}
		if name == "Caddyfile.example" && !strings.Contains(string(text), "\n\tadmin unix//run/card-gateway/admin.sock|0660\n") {
			t.Errorf("%s does not write the admin socket", name)
		}
	}
}
