package caddymodule

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/store"
)

func init() { caddy.RegisterModule(issuerSees{}) }

// issuerSees is the handler behind the gateway in these tests.
type issuerSees struct{}

func (issuerSees) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.issuer_sees", New: func() caddy.Module { return new(issuerSees) }}
}

func (issuerSees) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, err := fmt.Fprintf(w, `{"id":"c1","content_type":%q}`, r.Header.Get("Content-Type"))
	return err
}

// TestTypeMattersWhereItIsTranslated has two sites on one listener: one
// translates customers, so that it refuses a body that is not JSON with 415; the
// other leaves bodies to the issuer.
func TestTypeMattersWhereItIsTranslated(t *testing.T) {
	route := func(host string, handlers ...string) string {
		var nested []string
		for _, handler := range handlers {
			nested = append(nested, `{"handle":[{"handler":"`+handler+`"}]}`)
		}
		return `{"match":[{"host":["` + host + `"]}],"terminal":true,"handle":[{"handler":"subroute","routes":[` +
			`{"group":"g","match":[{"path":["/api/v1/*"]}],"handle":[{"handler":"subroute","routes":[` + strings.Join(nested, ",") + `]}]},` +
			`{"group":"g","handle":[{"handler":"subroute","routes":[{"handle":[{"handler":"card_auth"}]},{"handle":[{"handler":"card_translate"}]}]}]}]}]}`
	}
	config := configFrom(t, "file "+t.TempDir(), "", "http://127.0.0.1:0 {\nrespond 204\n}\n")
	var doc map[string]any
	if err := json.Unmarshal([]byte(config), &doc); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	doc["apps"].(map[string]any)["http"] = json.RawMessage(`{"servers":{"s":{"listen":["unix/` + socket + `"],"automatic_https":{"disable":true},"routes":[` +
		route("translates.example", "card_auth", "card_translate", "issuer_sees") + `,` + route("plain.example", "card_auth", "issuer_sees") + `]}}}`)
	changed, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(changed, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	app, err := caddy.ActiveContext().App("card_gateway")
	if err != nil {
		t.Fatal(err)
	}
	made, err := app.(*App).state.keys.Create(t.Context(), keys.CreateRequest{Fields: store.Fields{Tenant: "acme", Scopes: []string{"*"}}}, keys.By{Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	client := &http.Client{Transport: &sign.Transport{
		Signer: sign.Signer{KeyID: made.ID, Secret: made.Secret}, Base: &http.Transport{DialContext: dial, DisableKeepAlives: true},
	}}
	for host, want := range map[string]int{"translates.example": http.StatusUnsupportedMediaType, "plain.example": http.StatusCreated} {
		r, err := http.NewRequest(http.MethodPost, "http://gateway.example/api/v1/Customers", strings.NewReader("type=individual"))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, answer.StatusCode, want)
		}
	}
}
