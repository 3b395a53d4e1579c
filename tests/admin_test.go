package tests

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// credentials are what a client holds.
type credentials struct{ id, secret string }

// keyView is what a test asks of a key's record.
type keyView struct {
	ID       string          `json:"id"`
	Secret   string          `json:"secret"`
	Status   string          `json:"status"`
	Failures int             `json:"failures"`
	Revision string          `json:"revision"`
	Lock     json.RawMessage `json:"lock"`
}

// admin asks Caddy's admin endpoint.
func (g *gateway) admin(method, path, contentType, body string) (status int, answer string) {
	g.t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", g.path("admin.sock"))
		},
	}}
	request, err := http.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := client.Do(request)
	if err != nil {
		g.t.Fatalf("%s %s on the admin endpoint: %v", method, path, err)
	}
	defer response.Body.Close()
	return response.StatusCode, readAll(g.t, response.Body)
}

// keyCall asks the key API and expects success.
func (g *gateway) keyCall(method, path string, body any) keyView {
	g.t.Helper()
	doc := ""
	if body != nil {
		doc = jsonText(g.t, body)
	}
	status, answer := g.admin(method, "/card-gateway/keys"+path, "application/json", doc)
	if status/100 != 2 {
		g.t.Fatalf("%s /card-gateway/keys%s: %d %s", method, path, status, answer)
	}
	var view keyView
	if err := json.Unmarshal([]byte(answer), &view); err != nil {
		g.t.Fatalf("%s /card-gateway/keys%s: %v in %s", method, path, err, answer)
	}
	return view
}

// fields are the fields of a key's record that a test sets.
type fields map[string]any

// newKey makes a key with every scope, unless the fields say otherwise.
func (g *gateway) newKey(f fields) credentials {
	g.t.Helper()
	view := g.keyCall(http.MethodPost, "", withDefaults(f))
	return credentials{view.ID, view.Secret}
}

// importKey takes over a key of an earlier system.
func (g *gateway) importKey(c credentials, f fields) credentials {
	g.t.Helper()
	f = withDefaults(f)
	f["id"], f["secret"] = c.id, c.secret
	g.keyCall(http.MethodPost, "/import", f)
	return c
}

func withDefaults(f fields) fields {
	all := fields{"tenant": "acme", "scopes": []string{"*"}}
	for name, value := range f {
		all[name] = value
	}
	return all
}

// change patches a key's record.
func (g *gateway) change(c credentials, f fields) keyView {
	g.t.Helper()
	return g.keyCall(http.MethodPatch, "/"+c.id, f)
}

// do disables, enables, unlocks or rotates a key.
func (g *gateway) do(c credentials, action string) keyView {
	g.t.Helper()
	return g.keyCall(http.MethodPost, "/"+c.id+"/"+action, nil)
}

func (g *gateway) show(c credentials) keyView {
	g.t.Helper()
	return g.keyCall(http.MethodGet, "/"+c.id, nil)
}

// wantFailures checks the number of consecutive failures of a key.
func (g *gateway) wantFailures(t testing.TB, c credentials, want int) {
	t.Helper()
	if got := g.show(c).Failures; got != want {
		t.Errorf("the key has %d failures, want %d", got, want)
	}
}

// moment writes a time as the key API wants it.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func jsonText(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
