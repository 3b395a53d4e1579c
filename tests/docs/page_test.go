package docs

import (
	"context"
	"html"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// browser returns the path of a Chromium, or skips the test.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("NOT TESTED: no Chromium is installed, so nobody has looked at the page of make run; tests/install-tools.sh chromium installs it")
	return ""
}

// TestDemoPage looks at the page of `make run` in a browser: it has the first
// request and the operations, its console stays empty, and it loads nothing from
// elsewhere, because there every name is unknown.
func TestDemoPage(t *testing.T) {
	t.Parallel()
	program, d := browser(t), startDemo(t, t.TempDir())
	d.await(`\S+ card-sign GET .*`)
	home := "http://127.0.0.1:" + d.port
	run := exec.CommandContext(t.Context(), program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--user-data-dir="+t.TempDir(),
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--enable-logging=stderr", "--dump-dom", home+"/")
	run.Env = append(os.Environ(), "HOME="+t.TempDir())
	var said strings.Builder
	run.Stderr = &said
	page, err := run.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", run, err, said.String())
	}
	for _, want := range []string{
		home, "card-sign GET $CARD_URL/api/v1/products", "POST /api/v1/Customers", "GET /api/v1/cards/{cardId}/sensitive",
		"POST /api/v1/cards/{cardId}/freeze", "GET /gateway/v1/key", `href="/docs/openapi.yaml"`,
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not show %s:\n%s", want, page)
		}
	}
	if rows := strings.Count(string(page), "<tr><td>"); rows < 35 {
		t.Errorf("the page shows %d operations:\n%s", rows, page)
	}
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, ":CONSOLE") {
			t.Errorf("the console says: %s", line)
		}
	}
	if strings.Contains(string(page), "<script") || strings.Contains(string(page), "{{") {
		t.Errorf("the page has a script, or an open place:\n%s", page)
	}
	d.followed(string(page))
	d.interrupt()
}

// followed asks for all that the page refers to: it is all of this site, and there.
func (d *demo) followed(page string) {
	d.t.Helper()
	references := regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(references) < 8 {
		d.t.Errorf("the page refers to %q", references)
	}
	for _, reference := range references {
		reference[1] = html.UnescapeString(reference[1])
		if reference[1] == "data:," {
			continue
		}
		if !strings.HasPrefix(reference[1], "/") || strings.HasPrefix(reference[1], "//") {
			d.t.Errorf("the page refers to %s, which is elsewhere", reference[1])
			continue
		}
		ctx, cancel := context.WithTimeout(d.t.Context(), harness.Patience)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+d.port+reference[1], nil)
		if err != nil {
			d.t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			d.t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		cancel()
		steps := strings.HasPrefix(reference[1], "/debugger?")
		if answer.StatusCode != http.StatusOK || len(text) == 0 || steps && !strings.Contains(string(text), "String to sign") {
			d.t.Errorf("%s answers %d", reference[1], answer.StatusCode)
		}
	}
}
