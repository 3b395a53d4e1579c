package request

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/sandbox/issuer"
	"github.com/card-gateway/card-gateway/tests/harness"
	"github.com/card-gateway/card-gateway/translate"
)

// sandboxGateway starts a gateway with the sandbox behind it, as the demo does.
func sandboxGateway(t *testing.T) (*harness.Gateway, harness.Credentials) {
	t.Helper()
	sandbox := harness.FreeAddress(t)
	host, port, _ := strings.Cut(sandbox, ":")
	g := harness.StartGateway(t, harness.Site{
		Global: harness.CustomerOperations,
		Routes: "card_auth {\npass_header X-Sandbox-Force\n}\ncard_translate\ncard_forward " + sandbox,
		Sites:  fmt.Sprintf("http://:%s {\nbind %s\ncard_sandbox\n}\n", port, host),
	})
	return g, g.NewKey(harness.Fields{"customer_variant": "B"})
}

// TestSandboxSaysWhoAnswered sends requests that the issuer and that the gateway
// refuse: the header and the look of the error show which it was.
func TestSandboxSaysWhoAnswered(t *testing.T) {
	t.Parallel()
	g, key := sandboxGateway(t)
	issuers := g.Send(t, key.Request("GET", "/api/v1/cards/none", ""))
	if issuers.Status != 404 || issuers.Header.Get(issuer.HeaderAnswered) != "card_sandbox" || issuers.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("the issuer's 404 is %s with %v", issuers, issuers.Header)
	}
	ours := g.Send(t, key.JSON("POST", "/api/v1/Customers", `{}`))
	harness.WantRefused(t, ours, 422, "VALIDATION_FAILED")
	if ours.Header.Get(issuer.HeaderAnswered) != "" {
		t.Errorf("the gateway's 422 says that the sandbox has answered")
	}
}

// TestSandboxForce asks for answers on purpose, through the gateway.
func TestSandboxForce(t *testing.T) {
	t.Parallel()
	g, key := sandboxGateway(t)
	force := func(value string) *harness.Request {
		return key.Request("GET", "/api/v1/products", "").Set(issuer.HeaderForce, value)
	}
	for _, status := range []int{409, 422, 429, 500, 504} {
		answer := g.Send(t, force(fmt.Sprint(status)))
		if answer.Status != status || answer.Header.Get(issuer.HeaderAnswered) == "" || answer.Header.Get("X-Gateway-Forwarded") != "" {
			t.Errorf("forced %d: %s with %v", status, answer, answer.Header)
		}
	}
	harness.WantAccepted(t, g.Send(t, force("slow 10ms")))
	if answer, err := g.Try(force("cut")); err == nil {
		t.Errorf("the cut answer is %s, want half of one", answer)
	}
	// An answer that must be translated is read whole before anything is sent on.
	cut := key.Request("GET", "/api/v1/customers", "").Set(issuer.HeaderForce, "cut")
	harness.WantRefused(t, g.Send(t, cut), http.StatusBadGateway, "UPSTREAM_ERROR")
}

// TestSandboxTakesWhatTheInterfaceAllows runs every body that the published
// constraints allow through the translation into the sandbox, which must not
// refuse it.
func TestSandboxTakesWhatTheInterfaceAllows(t *testing.T) {
	t.Parallel()
	sandbox, taken := issuer.New(issuer.Options{}), 0
	for _, variant := range []string{"a", "b", "c"} {
		text, err := os.ReadFile(filepath.Join("../vectors/customers", "variant-"+variant+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			Individual, Business map[string]any
			Cases                []struct {
				Name, Operation, Of string
				Set                 map[string]any
				Without, Fields     []string
			}
		}
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		for _, c := range v.Cases {
			if len(c.Fields) > 0 || c.Operation == "update" {
				continue
			}
			body := maps.Clone(map[string]map[string]any{"individual": v.Individual, "business": v.Business}[c.Of])
			maps.Copy(body, c.Set)
			for _, name := range c.Without {
				delete(body, name)
			}
			asked, _ := json.Marshal(body)
			sent, _, problems := translate.Request(asked, translate.RequestOptions{Operation: translate.Create})
			if problems != nil {
				t.Fatalf("%s/%s: %v", variant, c.Name, problems)
			}
			r := httptest.NewRequest("POST", "/api/v1/Customers", strings.NewReader(string(sent)))
			for _, name := range []string{issuer.HeaderKeyID, issuer.HeaderScopes, issuer.HeaderOperation, issuer.HeaderRequestID} {
				r.Header.Set(name, "x")
			}
			r.Header.Set(issuer.HeaderTenant, variant+"/"+c.Name)
			w := httptest.NewRecorder()
			sandbox.ServeHTTP(w, r)
			if taken++; w.Code != http.StatusCreated {
				t.Errorf("%s/%s: the sandbox answers %s: %d %s", variant, c.Name, sent, w.Code, w.Body)
			}
		}
	}
	if taken < 30 {
		t.Errorf("only %d bodies were tried", taken)
	}
}
