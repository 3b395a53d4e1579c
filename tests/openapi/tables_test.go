package openapi

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/sandbox/issuer"
	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

// TestOperationsAreDocumented compares the operations of the gateway as the example
// configures it with those of the document: routes, scopes, limits and the
// largest bodies.
func TestOperationsAreDocumented(t *testing.T) {
	_, defs, maxBody := declared(t)
	table, err := auth.NewTable(defs)
	if err != nil {
		t.Fatal(err)
	}
	limits := ratelimit.DefaultLimits()
	var want []string
	for _, o := range table.Operations() {
		limit, found := limits[o.Name]
		if !found {
			limit = limits[ratelimit.NameDefault]
		}
		for _, route := range o.Routes {
			scope := route.Scope
			if o.Own {
				scope = ""
			}
			want = append(want, fmt.Sprintf("%s %s: %s, scope %q, limit %s, max_body %q", route.Method, route.Pattern, o.Name, scope, limit, maxBody[o.Name]))
		}
		if len(o.Routes) == 0 && o.Name != auth.OtherOperation {
			t.Errorf("operation %s has no route", o.Name)
		}
	}
	var got []string
	d := load(t)
	for _, o := range d.Operations {
		got = append(got, fmt.Sprintf("%s %s: %s, scope %q, limit %s, max_body %q", o.Method, o.Path, o.Name, o.Scope, o.Limit, o.MaxBody))
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s lacks the operation %s", document.Path, line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s has an operation that the gateway has not: %s", document.Path, line)
		}
	}
	if other := limits[auth.OtherOperation].String(); !strings.Contains(d.Model.Info.Description, "`other`") || !strings.Contains(d.Model.Info.Description, other) {
		t.Errorf("the description does not speak of the operation other and its limit %s", other)
	}
}

// TestReasonsAreDocumented compares the closed set of reasons with the examples of
// the answers: each has one under its own name, with its status, code and
// message.
func TestReasonsAreDocumented(t *testing.T) {
	d := load(t)
	statuses := make(map[string]map[string]bool) // of the responses, by name
	for _, o := range d.Operations {
		for status, response := range o.Responses.Codes.FromOldest() {
			if name := nameOf(response.GoLow().GetReference()); name != "" {
				if statuses[name] == nil {
					statuses[name] = make(map[string]bool)
				}
				statuses[name][status] = true
			}
		}
	}
	found := make(map[string]string)
	for name, response := range d.Model.Components.Responses.FromOldest() {
		media := response.Content.GetOrZero("application/json")
		if media == nil {
			continue
		}
		for reason, example := range media.Examples.FromOldest() {
			var body struct {
				Error struct{ Code, Message string }
			}
			if err := example.Value.Decode(&body); err != nil {
				t.Fatal(err)
			}
			for status := range statuses[name] {
				found[reason] = status + " " + body.Error.Code + " " + body.Error.Message
			}
		}
	}
	delete(found, "with_details") // shows details, not a reason
	for _, reason := range auth.Reasons() {
		if reason == auth.Accepted || reason == auth.ClientGone { // nobody reads an answer to it
			continue
		}
		if want := fmt.Sprintf("%d %s %s", reason.Status(), reason.Code(), reason.Message()); found[reason.String()] != want {
			t.Errorf("reason %s is documented as %q, want %q", reason, found[reason.String()], want)
		}
		delete(found, reason.String())
	}
	for name := range found {
		t.Errorf("%s has an example of the reason %s, which the gateway has not", document.Path, name)
	}
}

// TestCodesAreClosed compares the enum of error.code with the reasons.
func TestCodesAreClosed(t *testing.T) {
	failure := load(t).Model.Components.Schemas.GetOrZero("GatewayError").Schema()
	code := failure.Properties.GetOrZero("error").Schema().Properties.GetOrZero("code").Schema()
	var got, want []string
	for _, value := range code.Enum {
		got = append(got, value.Value)
	}
	for _, reason := range auth.Reasons() {
		if reason != auth.Accepted && reason != auth.ClientGone && !slices.Contains(want, reason.Code()) {
			want = append(want, reason.Code())
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("error.code is one of %v, the gateway has %v", got, want)
	}
}

// TestOriginsAreMarked: every operation and every schema says who has decided it.
func TestOriginsAreMarked(t *testing.T) {
	known := []string{"published", "gateway", "example", "sandbox"}
	d := load(t)
	for _, o := range d.Operations {
		if !slices.Contains(known, o.PathOrigin) || !slices.Contains(known, o.PayloadOrigin) {
			t.Errorf("%s %s says %q and %q of its origin", o.Method, o.Path, o.PathOrigin, o.PayloadOrigin)
		}
	}
	c := d.Model.Components
	for name, schema := range c.Schemas.FromOldest() {
		if origin := document.Text(schema.Schema().Extensions, "x-origin"); !slices.Contains(known, origin) {
			t.Errorf("schema %s says %q of its origin", name, origin)
		}
	}
	for name, header := range c.Headers.FromOldest() {
		if origin := document.Text(header.Extensions, "x-origin"); !slices.Contains(known, origin) {
			t.Errorf("header %s says %q of its origin", name, origin)
		}
	}
	for name, parameter := range c.Parameters.FromOldest() {
		if origin := document.Text(parameter.Extensions, "x-origin"); !slices.Contains(known, origin) {
			t.Errorf("parameter %s says %q of its origin", name, origin)
		}
	}
}

// TestOptionalHeadersAskForNothing: programs that fill in a request from the document
// send every header with its example, else a text that fits its pattern. So what the
// sandbox reads must have an example that it answers as usual.
func TestOptionalHeadersAskForNothing(t *testing.T) {
	for name, p := range load(t).Model.Components.Parameters.FromOldest() {
		if p.In != "header" || document.Text(p.Extensions, "x-origin") != "sandbox" {
			continue
		}
		if p.Example == nil || p.Schema.Schema().Default == nil || p.Schema.Schema().Default.Value != p.Example.Value {
			t.Fatalf("%s has not one value as example and default", name)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/api/v1/products", nil)
		for _, identity := range []string{issuer.HeaderKeyID, issuer.HeaderTenant, issuer.HeaderScopes, issuer.HeaderOperation, issuer.HeaderRequestID} {
			r.Header.Set(identity, "x")
		}
		r.Header.Set(p.Name, p.Example.Value)
		if issuer.New(issuer.Options{}).ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("with %s: %s, the sandbox answers %d %s", p.Name, p.Example.Value, w.Code, w.Body)
		}
	}
}

// nameOf returns the last part of a reference.
func nameOf(reference string) string { return reference[strings.LastIndexByte(reference, '/')+1:] }

// compact returns a value as JSON.
func compact(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
