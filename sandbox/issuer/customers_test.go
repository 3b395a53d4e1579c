package issuer

import (
	"fmt"
	"strings"
	"testing"
)

func TestCreateCustomer(t *testing.T) {
	i := newTestIssuer(Options{})
	body := ask(t, i, 201, request("POST", "/api/v1/Customers", ann))
	for path, want := range map[string]any{
		"request_id": "req-1", "timestamp": "2026-03-04T05:06:07Z",
		"data.status": "active", "data.kyc_state": "not_submitted", "data.first_name": "Ann",
		"data.date_of_birth": "1990-05-17T00:00:00Z", "data.created_at": "2026-03-04T05:06:07Z",
		"data.address.city": "Leeds", "data.middle_name": nil, "data.updated_at": nil, "data.business": nil,
	} {
		if got := at(t, body, strings.Split(path, ".")...); got != want {
			t.Errorf("%s = %v, want %v", path, got, want)
		}
	}
	for _, again := range []string{ann, strings.Replace(ann, "ann@", "ANN@", 1)} {
		if code := at(t, ask(t, i, 409, request("POST", "/api/v1/customers", again)), "code"); code != "EMAIL_EXISTS" {
			t.Errorf("code %v", code)
		}
	}
}

func TestCreateBusinessCustomer(t *testing.T) {
	i := newTestIssuer(Options{})
	body := `{"type":"business","business_name":"Ann Ltd","email":"b@example.com","phone_code":"+44","phone_number":"1","country":"GB"}`
	if got := at(t, ask(t, i, 201, request("POST", "/api/v1/customers", body)), "data", "business", "business_name"); got != "Ann Ltd" {
		t.Errorf("business_name %v", got)
	}
}

// wantInvalid wants a 422 that names exactly this field.
func wantInvalid(t *testing.T, i *Issuer, method, target, body, field string) {
	t.Helper()
	answer := ask(t, i, 422, request(method, target, body))
	details, _ := at(t, answer, "errors").([]any)
	if len(details) != 1 || at(t, details[0], "field") != field {
		t.Errorf("%s: details %v, want one of field %q", body, details, field)
	}
}

func TestCustomerValidation(t *testing.T) {
	change := func(old, replacement string) string {
		if !strings.Contains(ann, old) {
			t.Fatalf("the example has no %s", old)
		}
		return strings.Replace(ann, old, replacement, 1)
	}
	i := newTestIssuer(Options{})
	for _, test := range []struct{ body, field string }{
		{``, ""},
		{`null`, ""},
		{`[]`, ""},
		{ann + `x`, ""},
		{change(`"type":"individual"`, `"type":"person"`), "type"},
		{change(`"phone_code"`, `"phoneCode"`), "phone_code"},
		{change(`"phone_code":"+44"`, `"phone_code":null`), "phone_code"},
		{change(`"phone_code":"+44"`, `"phone_code":""`), "phone_code"},
		{change(`"Ann"`, `"`+strings.Repeat("é", 101)+`"`), "first_name"},
		{change(`"last_name":"Lee"`, `"last_name":7`), "last_name"},
		{change(`ann@example.com`, `ann`), "email"},
		{change(`+44`, `44`), "phone_code"},
		{change(`"GB"`, `"gb"`), "country"},
		{change(`"GB"`, `"GBR"`), "country"},
		{change(`1990-05-17T00:00:00Z`, `1990-05-17`), "date_of_birth"},
		{change(`1990-05-17T00:00:00Z`, `1990-02-30T00:00:00Z`), "date_of_birth"},
		{change(`,"gender":"female"`, ``), "gender"},
		{change(`{"city":"Leeds","lines":["1 High St"]}`, `"Leeds"`), "address"},
		{change(`ref-1`, strings.Repeat("r", 201)), "external_reference"},
	} {
		wantInvalid(t, i, "POST", "/api/v1/customers", test.body, test.field)
	}
	for n, allowed := range []string{
		change(`"Ann"`, `"`+strings.Repeat("é", 100)+`"`),
		change(`"first_name":"Ann","last_name":"Lee",`, ``),
		change(`"first_name":"Ann","last_name":"Lee"`, `"first_name":null,"last_name":null`),
		change(`"Lee"`, `""`),
		change(`1990-05-17T00:00:00Z`, `1990-05-17T10:30+0200`),
	} {
		ask(t, i, 201, request("POST", "/api/v1/customers", strings.Replace(allowed, "ann@", fmt.Sprintf("ann%d@", n), 1)))
	}
}

func TestGetAndListCustomers(t *testing.T) {
	i := newTestIssuer(Options{})
	id := createAnn(t, i)
	if got := at(t, ask(t, i, 200, request("GET", "/api/v1/customers/"+strings.ToUpper(id), "")), "data", "id"); got != id {
		t.Errorf("got customer %v, want %s", got, id)
	}
	ask(t, i, 404, request("GET", "/api/v1/customers/"+virtualProduct, ""))
	ask(t, i, 201, request("POST", "/api/v1/customers", strings.Replace(ann, "ann@", "bob@", 1)))

	list := ask(t, i, 200, request("GET", "/api/v1/customers?limit=1&offset=1", ""))
	shown := at(t, list, "data").([]any)
	if len(shown) != 1 || at(t, shown[0], "email") != "bob@example.com" || at(t, list, "request_id") != "req-1" {
		t.Errorf("list %v", list)
	}
}

func TestUpdateCustomer(t *testing.T) {
	i := newTestIssuer(Options{})
	target := "/api/v1/customers/" + createAnn(t, i)
	body := ask(t, i, 200, request("PATCH", target, `{"state":"Kent","external_reference":null,"email":"ann@example.com"}`))
	if at(t, body, "data", "state") != "Kent" || at(t, body, "data", "external_reference") != nil ||
		at(t, body, "data", "updated_at") != "2026-03-04T05:06:07Z" {
		t.Errorf("updated to %v", body)
	}
	wantInvalid(t, i, "PATCH", target, `{"email":"other@example.com"}`, "email")
	wantInvalid(t, i, "PATCH", target, `{"email":null}`, "email")
	wantInvalid(t, i, "PATCH", target, `{"type":"business"}`, "type")
	wantInvalid(t, i, "PATCH", target, `{"gender":null}`, "gender")
	wantInvalid(t, i, "PATCH", target, `{"state":1}`, "state")
	if got := at(t, ask(t, i, 200, request("GET", target, "")), "data", "gender"); got != "female" {
		t.Errorf("a refused update changed the gender to %v", got)
	}
	ask(t, i, 404, request("PATCH", "/api/v1/customers/"+virtualProduct, `{}`))
}
