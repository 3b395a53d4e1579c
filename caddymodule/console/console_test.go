package console

import (
	"context"
	"crypto/tls"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// serve asks the route of the page, over loopback.
func serve(t *testing.T, target string) *http.Response {
	t.Helper()
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2019}
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, loopback)
	return ask(t, httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil))
}

// ask gives a request to the route of the page.
func ask(t *testing.T, r *http.Request) *http.Response {
	t.Helper()
	mux := http.NewServeMux()
	for _, route := range new(AdminPage).Routes() {
		mux.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := route.Handler.ServeHTTP(w, r); err != nil {
				t.Error(err)
			}
		})
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w.Result()
}

// Where a token would cross a network unencrypted, nothing asks for one.
func TestNoPageOnOpenNetwork(t *testing.T) {
	open := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	for name, local := range map[string]net.Addr{"an address of a network": open, "no address": nil} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, local)
		for _, file := range []string{"", "index.html", "main.js"} {
			answer := ask(t, httptest.NewRequestWithContext(ctx, http.MethodGet, "/card-gateway/console/"+file, nil))
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusForbidden || !strings.Contains(string(text), "ssh -N -L") || strings.Contains(string(text), "<") {
				t.Errorf("%s, %q: %d %.100q, %v", name, file, answer.StatusCode, text, err)
			}
		}
	}
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, open)
	encrypted := httptest.NewRequestWithContext(ctx, http.MethodGet, "/card-gateway/console/", nil)
	encrypted.TLS = new(tls.ConnectionState)
	if answer := ask(t, encrypted); answer.StatusCode != http.StatusOK {
		t.Errorf("over TLS: %d", answer.StatusCode)
	}
}

// Every file has its type and the headers that keep others out of the page.
func TestHeaders(t *testing.T) {
	files, err := fs.ReadDir(pages, "page")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		answer := serve(t, "/card-gateway/console/"+file.Name())
		policy := answer.Header.Get("Content-Security-Policy")
		for _, want := range []string{
			"default-src 'none';", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "base-uri 'none';", "form-action 'none';",
			"frame-ancestors 'none';", "require-trusted-types-for 'script'",
		} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %s", file.Name(), policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != kinds[path.Ext(file.Name())] ||
			answer.Header.Get("Cache-Control") != "no-store" || answer.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", file.Name(), answer.StatusCode, answer.Header)
		}
	}
	for target, want := range map[string]int{
		"/card-gateway/console/": 200, "/card-gateway/console": 307, "/card-gateway/console/none.js": 404,
		"/card-gateway/console/%2e%2e/console.go": 404, "/card-gateway/console/page": 404,
	} {
		if answer := serve(t, target); answer.StatusCode != want && answer.StatusCode != 301 {
			t.Errorf("%s: %d, want %d", target, answer.StatusCode, want)
		}
	}
}

// runbooks is what the addresses of runbooks begin with, as in ops/alerts.yml.
const runbooks = "https://github.com/card-gateway/card-gateway/blob/main/docs/runbooks/${name}.md"

// Each runbook that the page links to is there.
func TestRunbooks(t *testing.T) {
	text, err := pages.ReadFile("page/attention.js")
	if err != nil || !strings.Contains(string(text), runbooks) {
		t.Fatalf("no link to %s: %v", runbooks, err)
	}
	names := regexp.MustCompile(`add\("\w+", (?:pages\[what\] \|\| )?"([a-z-]+)"|"([a-z]+(?:-[a-z]+)+)"[,} ]`).FindAllStringSubmatch(string(text), -1)
	if len(names) < 14 {
		t.Errorf("the page links to %q", names)
	}
	for _, name := range names {
		if _, err := os.Stat("../../docs/runbooks/" + name[1] + name[2] + ".md"); err != nil {
			t.Error(err)
		}
	}
}

// No file of the page makes HTML of a text, keeps the token anywhere but in
// memory, or speaks of another site, but for that of the runbooks and the name of SVG.
func TestPageIsItsOwn(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|eval\(|new Function|localStorage|sessionStorage|cookie\s*=|https?://| style="|\bon[a-z]+="`)
	err := fs.WalkDir(pages, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := pages.ReadFile(name)
		if found := forbidden.FindString(strings.NewReplacer(runbooks, "", "http://www.w3.org/2000/svg", "").Replace(string(text))); found != "" {
			t.Errorf("%s has %q", name, found)
		}
		if lines := strings.Count(string(text), "\n"); lines > 250 {
			t.Errorf("%s has %d lines", name, lines)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
