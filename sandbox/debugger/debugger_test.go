package debugger

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/card-gateway/card-gateway/auth"
	_ "github.com/card-gateway/card-gateway/commands/cardexplain"
)

const (
	keyID  = "ck_test_demo"
	secret = "test_secret_0123456789abcdef"
)

func newHandler(t *testing.T) *Handler {
	t.Helper()
	dir := t.TempDir()
	h := &Handler{KeyFile: filepath.Join(dir, "id"), SecretFile: filepath.Join(dir, "secret")}
	if err := errors.Join(os.WriteFile(h.KeyFile, []byte(keyID+"\n"), 0o600), os.WriteFile(h.SecretFile, []byte(secret), 0o600)); err != nil {
		t.Fatal(err)
	}
	return h
}

// ask sends a form as a browser of this machine does, changed by change. It returns
// the status and the page.
func ask(t *testing.T, h *Handler, form string, change func(*http.Request)) (int, string) {
	t.Helper()
	r := httptest.NewRequest("POST", "http://127.0.0.1:8080/debugger", strings.NewReader(form))
	r.RemoteAddr = "127.0.0.1:4000"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	err := h.ServeHTTP(w, r, nil)
	if refused := new(caddyhttp.HandlerError); errors.As(err, refused) {
		return refused.StatusCode, ""
	} else if err != nil {
		t.Fatal(err)
	}
	return w.Code, w.Body.String()
}

const form = "method=GET&target=/api/v1/products"

func TestOnlyThisMachineIsAnswered(t *testing.T) {
	h := newHandler(t)
	for name, test := range map[string]struct {
		want   int
		change func(*http.Request)
	}{
		"loopback":               {200, nil},
		"loopback of IPv6":       {200, func(r *http.Request) { r.RemoteAddr, r.Host = "[::1]:4000", "[::1]" }},
		"localhost":              {200, func(r *http.Request) { r.Host = "localhost:8080" }},
		"its own page":           {200, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }},
		"another machine":        {403, func(r *http.Request) { r.RemoteAddr = "192.0.2.1:4000" }},
		"no address":             {403, func(r *http.Request) { r.RemoteAddr = "@" }},
		"a name that leads here": {403, func(r *http.Request) { r.Host = "evil.example:8080" }},
		"an address of a net":    {403, func(r *http.Request) { r.Host = "192.0.2.1" }},
		"another site":           {403, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }},
		"another port":           {403, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }},
		"another origin":         {403, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }},
	} {
		status, page := ask(t, h, form, test.change)
		if signed := strings.Contains(page, "String to sign"); status != test.want || signed != (test.want == 200) {
			t.Errorf("%s: %d, signed %v, want %d", name, status, signed, test.want)
		}
	}
}

// TestSecretStaysInItsFile: a request that names the key is explained with the secret,
// another without, and neither the page nor the steps show it.
func TestSecretStaysInItsFile(t *testing.T) {
	h := newHandler(t)
	const hash = "X-Timestamp: 1750000000\r\nX-Nonce: n-0001\r\nX-Body-Hash: " + auth.EmptyBodyHash + "\r\n"
	sign := func(target string) string {
		key := auth.NewSecret(1, secret, time.Time{})
		return key.Sign(auth.AppendStringToSign(nil, "GET", target, "1750000000", "n-0001", auth.EmptyBodyHash))
	}
	for id, want := range map[string]string{keyID: "target_without_query", "ck_test_other": "without the secret"} {
		request := "GET /api/v1/orders?limit=2 HTTP/1.1\r\nHost: h\r\nX-API-Key: " + id + "\r\n" + hash + "X-Signature: " + sign("/api/v1/orders") + "\r\n\r\n"
		_, page := ask(t, h, form+"&request="+url.QueryEscape(request), nil)
		if !strings.Contains(page, want) || strings.Contains(page, secret) {
			t.Errorf("of %s is said, without %s or with the secret:\n%s", id, want, page)
		}
	}
	curl := "curl -G -d @" + h.SecretFile + " http://h/api/v1/orders -H 'X-API-Key: " + keyID + "'"
	if _, page := ask(t, h, "request="+url.QueryEscape(curl), nil); strings.Contains(page, secret) || !strings.Contains(page, "none is read here") {
		t.Errorf("a file that the command names is read:\n%s", page)
	}
	if _, page := ask(t, h, "request="+url.QueryEscape("<script>alert(1)</script>"), nil); strings.Contains(page, "<script>") || !strings.Contains(page, "this is no request") {
		t.Errorf("what was pasted is not text:\n%s", page)
	}
}

func TestCaddyfile(t *testing.T) {
	for site, want := range map[string]string{
		"card_sandbox_debugger {\nkey_file /a\nsecret_file /b\n}": `{"handler":"card_sandbox_debugger","key_file":"/a","secret_file":"/b"}`,
		"card_sandbox_debugger":                                   "needs the lines key_file PATH and secret_file PATH",
		"card_sandbox_debugger {\nkey_file /a /b\n}":              `not "/a"`,
		"card_sandbox_debugger {\nkey /a\n}":                      `not "key"`,
	} {
		adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(":8080 {\n"+site+"\n}\n"), nil)
		if err != nil {
			adapted = []byte(err.Error())
		}
		if !strings.Contains(string(adapted), want) {
			t.Errorf("%s\nadapts to %s\nwithout   %s", site, adapted, want)
		}
	}
}
