package harness

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Credentials are the key id and the secret of a client.
type Credentials struct{ ID, Secret string }

// KeyView is the part of a key's record that tests read.
type KeyView struct {
	ID       string          `json:"id"`
	Secret   string          `json:"secret"`
	Status   string          `json:"status"`
	Failures int             `json:"failures"`
	Revision string          `json:"revision"`
	Lock     json.RawMessage `json:"lock"`
}

// Admin calls Caddy's admin endpoint. Each load, a refused one too, replaces the
// endpoint, and the server of before may accept one more connection, which Caddy
// drops unread: that call is made again.
func (g *Gateway) Admin(method, path, contentType, body string) (status int, answer string) {
	g.T.Helper()
	status, answer, err := g.TryAdmin(method, path, contentType, body)
	if errors.Is(err, io.EOF) && g.replaced.Swap(false) {
		status, answer, err = g.TryAdmin(method, path, contentType, body)
	}
	if path == "/load" {
		g.replaced.Store(true)
	}
	if err != nil {
		g.T.Fatalf("%s %s on the admin endpoint: %v", method, path, err)
	}
	return status, answer
}

// TryAdmin asks Caddy's admin endpoint of a gateway that may not run.
func (g *Gateway) TryAdmin(method, path, contentType, body string) (status int, answer string, err error) {
	client := http.Client{Timeout: Patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", g.Path("admin.sock"))
		},
	}}
	request, err := http.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// KeyCall calls the key API and expects success.
func (g *Gateway) KeyCall(method, path string, body any) KeyView {
	g.T.Helper()
	doc := ""
	if body != nil {
		doc = JSONText(g.T, body)
	}
	status, answer := g.Admin(method, "/card-gateway/keys"+path, "application/json", doc)
	if status/100 != 2 {
		g.T.Fatalf("%s /card-gateway/keys%s: %d %s", method, path, status, answer)
	}
	var view KeyView
	if err := json.Unmarshal([]byte(answer), &view); err != nil {
		g.T.Fatalf("%s /card-gateway/keys%s: %v in %s", method, path, err, answer)
	}
	theWitness.knows(g, view.ID, view.Secret)
	return view
}

// Made notes a key that the test has made in another way than NewKey.
func (g *Gateway) Made(c Credentials) Credentials {
	theWitness.knows(g, c.ID, c.Secret)
	return c
}

// Fields are the fields of a key's record that a test sets.
type Fields map[string]any

// NewKey makes a key with every scope, unless the fields say otherwise.
func (g *Gateway) NewKey(f Fields) Credentials {
	g.T.Helper()
	view := g.KeyCall(http.MethodPost, "", KeyFields(f))
	return Credentials{view.ID, view.Secret}
}

// TryNewKey makes a key with every scope, if the store can be written.
func (g *Gateway) TryNewKey() (c Credentials, made bool) {
	g.T.Helper()
	status, answer := g.Admin(http.MethodPost, "/card-gateway/keys", "application/json", JSONText(g.T, KeyFields(nil)))
	var view KeyView
	if status/100 != 2 || json.Unmarshal([]byte(answer), &view) != nil {
		return c, false
	}
	theWitness.knows(g, view.ID, view.Secret)
	return Credentials{view.ID, view.Secret}, true
}

// ImportKey imports a key of an earlier system.
func (g *Gateway) ImportKey(c Credentials, f Fields) Credentials {
	g.T.Helper()
	f = KeyFields(f)
	f["id"], f["secret"] = c.ID, c.Secret
	g.KeyCall(http.MethodPost, "/import", f)
	theWitness.knows(g, c.ID, c.Secret)
	return c
}

// KeyFields returns the given fields, and for all others those of a key that may
// do everything.
func KeyFields(f Fields) Fields {
	all := Fields{"tenant": "acme", "scopes": []string{"*"}}
	for name, value := range f {
		all[name] = value
	}
	return all
}

// Change patches a key's record.
func (g *Gateway) Change(c Credentials, f Fields) KeyView {
	g.T.Helper()
	return g.KeyCall(http.MethodPatch, "/"+c.ID, f)
}

// Do disables, enables, unlocks or rotates a key.
func (g *Gateway) Do(c Credentials, action string) KeyView {
	g.T.Helper()
	return g.KeyCall(http.MethodPost, "/"+c.ID+"/"+action, nil)
}

// Show returns the record of a key.
func (g *Gateway) Show(c Credentials) KeyView {
	g.T.Helper()
	return g.KeyCall(http.MethodGet, "/"+c.ID, nil)
}

// WantFailures checks the number of consecutive failures of a key.
func (g *Gateway) WantFailures(t testing.TB, c Credentials, want int) {
	t.Helper()
	if got := g.Show(c).Failures; got != want {
		t.Errorf("the key has %d failures, want %d", got, want)
	}
}

// Moment returns a time in the form of the key API.
func Moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// JSONText writes a value as JSON.
func JSONText(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
