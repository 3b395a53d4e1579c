package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/requestbody"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"

	"github.com/card-gateway/card-gateway/caddymodule/issuer"
	"github.com/card-gateway/card-gateway/caddymodule/translating"
)

// A configuration with a key that cannot be used is refused, with the place and
// the line in it, and without the key.
func TestAssertKeyThatCannotBeUsed(t *testing.T) {
	const key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return "file " + path
	}
	t.Setenv("ASSERT_KEY_EMPTY", "")
	t.Setenv("ASSERT_KEY_SHORT", key[:20])
	t.Setenv("ASSERT_KEY", key)
	for ref, want := range map[string]string{
		"file " + filepath.Join(dir, "missing"): "reading key: open " + filepath.Join(dir, "missing"),
		"env ASSERT_KEY_EMPTY":                  "ASSERT_KEY_EMPTY is not set or empty",
		"env ASSERT_KEY_SHORT":                  "key from environment variable ASSERT_KEY_SHORT: line 1: want 32 bytes",
		write("second", key+"\nabc\n", 0o600):   "second: line 2: want 32 bytes",
		write("empty", "\n", 0o600):             "empty is empty",
		write("open", key, 0o666):               "can be written by everybody",
		write("good", key+"\n", 0o600):          "",
		"env ASSERT_KEY":                        "",
	} {
		for _, algorithm := range []string{"EdDSA", "HS256"} {
			site := "http://127.0.0.1:0 {\ncard_auth {\nassert {\nalgorithm " + algorithm + "\nkey " + ref + "\naudience a\n}\n}\nrespond 204\n}\n"
			err := validated(t, configFrom(t, "file "+t.TempDir(), "", site))
			if want == "" && err == nil {
				continue
			}
			if err == nil || want == "" || !strings.Contains(err.Error(), "card_auth: assert: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", ref, err, want)
			} else if strings.Contains(err.Error(), key[:20]) {
				t.Errorf("%s: the error repeats the key: %v", ref, err)
			}
		}
	}
}

// What is checked for the Caddyfile is checked for JSON too.
func TestAssertInJSON(t *testing.T) {
	t.Setenv("ASSERT_KEY", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	config := configFrom(t, "file "+t.TempDir(), "", "http://127.0.0.1:0 {\ncard_auth {\nassert {\nkey env ASSERT_KEY\naudience a\n}\n}\nrespond 204\n}\n")
	for change, want := range map[string]string{
		`"audience":"a"`:             "needs an audience",
		`"key":{"env":"ASSERT_KEY"}`: "needs a key",
	} {
		without := strings.NewReplacer(","+change, "", change+",", "").Replace(config)
		if err := validated(t, without); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v, want %q", change, err, want)
		}
	}
	if err := validated(t, strings.Replace(config, `"audience"`, `"algorithm":"none","audience"`, 1)); err == nil || !strings.Contains(err.Error(), "EdDSA or HS256") {
		t.Errorf("algorithm none: %v", err)
	}
}

// A handler that nobody knows might send a request without an assertion. With
// reverse_proxy, one that changes the request would make the assertion a lie.
func TestUnasserted(t *testing.T) {
	proxy := new(reverseproxy.Handler)
	for name, c := range map[string]struct {
		behind []caddyhttp.MiddlewareHandler
		want   string
	}{
		"card_forward":                {[]caddyhttp.MiddlewareHandler{new(translating.Translate), new(encode.Encode), new(issuer.Forward)}, ""},
		"card_forward after rewrite":  {[]caddyhttp.MiddlewareHandler{new(rewrite.Rewrite), new(issuer.Forward)}, ""},
		"reverse_proxy":               {[]caddyhttp.MiddlewareHandler{new(translating.Translate), new(encode.Encode), proxy}, ""},
		"reverse_proxy after rewrite": {[]caddyhttp.MiddlewareHandler{new(rewrite.Rewrite), proxy}, "rewrite between"},
		"reverse_proxy after a body":  {[]caddyhttp.MiddlewareHandler{new(requestbody.RequestBody), proxy}, "request_body between"},
		"reverse_proxy that rewrites": {[]caddyhttp.MiddlewareHandler{&reverseproxy.Handler{Rewrite: new(rewrite.Rewrite)}}, "rewrites what it sends"},
		"one that nobody knows":       {[]caddyhttp.MiddlewareHandler{issuerSees{}, new(issuer.Forward)}, "may send requests"},
	} {
		h := new(Auth)
		server := &caddyhttp.Server{Routes: caddyhttp.RouteList{{Handlers: append([]caddyhttp.MiddlewareHandler{h}, c.behind...)}}}
		if got := downstreamOf(server, h).unasserted; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
