package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/card-gateway/card-gateway/sandbox/issuer"
)

func provision(t *testing.T, h *Handler) *Handler {
	t.Helper()
	if err := h.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	return h
}

// create makes a customer and returns the status.
func create(t *testing.T, h *Handler, email string) int {
	t.Helper()
	r := httptest.NewRequest("POST", "/api/v1/Customers", strings.NewReader(fmt.Sprintf(
		`{"type":"business","business_name":"B","email":%q,"phone_code":"+44","phone_number":"1","country":"GB"}`, email)))
	for _, name := range []string{
		issuer.HeaderKeyID, issuer.HeaderTenant, issuer.HeaderScopes, issuer.HeaderOperation, issuer.HeaderRequestID,
	} {
		r.Header.Set(name, "x")
	}
	w := httptest.NewRecorder()
	if err := h.ServeHTTP(w, r, nil); err != nil {
		t.Fatal(err)
	}
	return w.Code
}

func TestReloadKeepsCustomers(t *testing.T) {
	name := t.Name()
	before := provision(t, &Handler{Name: name})
	if got := create(t, before, "a@example.com"); got != http.StatusCreated {
		t.Fatalf("create: %d", got)
	}
	after := provision(t, &Handler{Name: name, MaxCustomers: 1})
	other := provision(t, &Handler{Name: name + "/other"})
	if err := before.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if got := create(t, after, "a@example.com"); got != http.StatusConflict {
		t.Errorf("the customer of before the reload: %d, want 409", got)
	}
	if got := create(t, after, "b@example.com"); got != http.StatusInsufficientStorage {
		t.Errorf("the new bound is not in force: %d, want 507", got)
	}
	if got := create(t, other, "a@example.com"); got != http.StatusCreated {
		t.Errorf("an issuer of another name: %d, want 201", got)
	}
	for _, h := range []*Handler{after, other} {
		if err := h.Cleanup(); err != nil {
			t.Error(err)
		}
		if count, left := issuers.References(h.Name); left {
			t.Errorf("%d references to %q are left", count, h.Name)
		}
	}
}

func TestCleanupAfterFailedProvision(t *testing.T) {
	if err := new(Handler).Cleanup(); err != nil {
		t.Error(err)
	}
}

func TestCaddyfile(t *testing.T) {
	for _, test := range []struct{ site, want string }{
		{"card_sandbox", `{"handler":"card_sandbox"}`},
		{"card_sandbox demo", `{"handler":"card_sandbox","name":"demo"}`},
		{"card_sandbox {\nmax_customers 5\nmax_cards 6\nmax_records 7\n}", `{"handler":"card_sandbox","max_cards":6,"max_customers":5,"max_records":7}`},
		{"card_sandbox {\nassertion http://127.0.0.1:1/jwks sandbox\n}", `{"assertion":{"audience":"sandbox","jwks":"http://127.0.0.1:1/jwks"},"handler":"card_sandbox"}`},
		{"card_sandbox {\nassertion http://127.0.0.1:1/jwks\n}", "assertion needs the address"},
		{"card_sandbox\nrespond /livez 204", `{"handler":"static_response","status_code":204}]},{"handle":[{"handler":"card_sandbox"}]}`},
		{"card_sandbox a b", `card_sandbox takes at most a name, not also "b", at Caddyfile:2`},
		{"card_sandbox {\nmax_users 5\n}", `card_sandbox has no option "max_users"; it has max_customers, max_cards, max_records and assertion, at Caddyfile:3`},
		{"card_sandbox {\nmax_cards 0\n}", `max_cards: "0" is not a whole number from 1 up, at Caddyfile:3`},
		{"card_sandbox {\nmax_cards\n}", `wrong argument count`},
		{"card_sandbox {\nmax_cards 1 2\n}", `wrong argument count`},
	} {
		got := adapt(t, ":8080 {\n"+test.site+"\n}\n")
		if !strings.Contains(got, test.want) {
			t.Errorf("%s\nadapts to %s\nwithout   %s", test.site, got, test.want)
		}
	}
}

// adapt returns the JSON, compact, or the text of the error.
func adapt(t *testing.T, text string) string {
	t.Helper()
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		return err.Error()
	}
	var config json.RawMessage = adapted
	compact, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(compact)
}
