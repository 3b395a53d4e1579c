package issuer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

var testNow = time.Date(2026, time.March, 4, 5, 6, 7, 0, time.UTC)

func newTestIssuer(opt Options) *Issuer {
	opt.Now = func() time.Time { return testNow }
	return New(opt)
}

// request makes a request as the gateway would send it, for tenant acme.
func request(method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set(HeaderKeyID, "ck_test_1")
	r.Header.Set(HeaderTenant, "acme")
	r.Header.Set(HeaderScopes, "*")
	r.Header.Set(HeaderOperation, "some_operation")
	r.Header.Set(HeaderRequestID, "req-1")
	return r
}

// ask sends a request and wants a status; it returns the body, decoded.
func ask(t *testing.T, i *Issuer, want int, r *http.Request) map[string]any {
	t.Helper()
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	if w.Code != want {
		t.Fatalf("%s %s: status %d, want %d; body %s", r.Method, r.URL, w.Code, want, w.Body)
	}
	if w.Body.Len() == 0 {
		return nil
	}
	kind := "application/json"
	if want >= 400 {
		kind = "application/problem+json"
	}
	if got := w.Header(); got.Get("Content-Type") != kind || got.Get(HeaderAnswered) != "card_sandbox" {
		t.Errorf("%s %s: headers %v, want Content-Type %s and %s", r.Method, r.URL, got, kind, HeaderAnswered)
	}
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s %s: the body is no JSON object: %v: %s", r.Method, r.URL, err, w.Body)
	}
	return body
}

// at walks down into a decoded body.
func at(t *testing.T, body any, path ...string) any {
	t.Helper()
	for _, name := range path {
		object, ok := body.(map[string]any)
		if !ok {
			t.Fatalf("%v: %q is asked of %T", path, name, body)
		}
		body = object[name]
	}
	return body
}

const ann = `{"type":"individual","first_name":"Ann","last_name":"Lee","email":"ann@example.com","phone_code":"+44",` +
	`"phone_number":"7700900123","country":"GB","date_of_birth":"1990-05-17T00:00:00Z","gender":"female",` +
	`"address":{"city":"Leeds","lines":["1 High St"]},"external_reference":"ref-1"}`

func createAnn(t *testing.T, i *Issuer) string {
	t.Helper()
	return at(t, ask(t, i, 201, request("POST", "/api/v1/Customers", ann)), "data", "id").(string)
}

const (
	virtualProduct  = "00000000-0000-4000-8000-000000000001"
	physicalProduct = "00000000-0000-4000-8000-000000000002"
)

func issueCard(t *testing.T, i *Issuer, customerID string) string {
	t.Helper()
	body := `{"customerId":"` + customerID + `","productId":"` + virtualProduct + `","currency":"EUR"}`
	return at(t, ask(t, i, 201, request("POST", "/api/v1/cards", body)), "cardId").(string)
}

func TestIdentityHeadersAreNeeded(t *testing.T) {
	i := newTestIssuer(Options{})
	for _, name := range identityHeaders {
		for how, spoil := range map[string]func(http.Header){
			"absent":   func(h http.Header) { h.Del(name) },
			"empty":    func(h http.Header) { h.Set(name, "") },
			"repeated": func(h http.Header) { h.Add(name, h.Get(name)) },
		} {
			r := request("GET", "/api/v1/products", "")
			spoil(r.Header)
			body := ask(t, i, 403, r)
			if message := at(t, body, "detail").(string); !strings.Contains(message, name) {
				t.Errorf("%s %s: the message does not name it: %s", name, how, message)
			}
		}
	}
	ask(t, i, 200, request("GET", "/api/v1/products", ""))
}

func TestUnknownPathsAreNotFound(t *testing.T) {
	i := newTestIssuer(Options{})
	for _, r := range []*http.Request{
		request("GET", "/", ""),
		request("DELETE", "/api/v1/webhooks", ""),
		request("DELETE", "/api/v1/cards/1", ""),
	} {
		body := ask(t, i, 404, r)
		if message := at(t, body, "detail").(string); !strings.Contains(message, r.Method+" "+r.URL.Path) {
			t.Errorf("the message does not say what was asked: %s", message)
		}
	}
}

func TestBodiesAreBounded(t *testing.T) {
	i := newTestIssuer(Options{})
	ask(t, i, 413, request("POST", "/api/v1/customers", strings.Repeat(" ", maxBody+1)))
	ask(t, i, 413, request("POST", "/api/v1/documents", strings.Repeat(" ", maxDocuments+1)))
}

func TestBoundsAnswer507(t *testing.T) {
	i := newTestIssuer(Options{MaxCustomers: 1, MaxCards: 1})
	id := createAnn(t, i)
	issueCard(t, i, id)
	other := request("POST", "/api/v1/customers", ann)
	other.Header.Set(HeaderTenant, "globex")
	ask(t, i, 507, other)
	again := `{"customerId":"` + id + `","productId":"` + virtualProduct + `","currency":"EUR"}`
	ask(t, i, 507, request("POST", "/api/v1/cards", again))

	i.SetBounds(Options{MaxCustomers: 1, MaxCards: 2})
	ask(t, i, 201, request("POST", "/api/v1/cards", again))
}

func TestTenantsDoNotSeeEachOther(t *testing.T) {
	i := newTestIssuer(Options{})
	customerID := createAnn(t, i)
	cardID := issueCard(t, i, customerID)
	for _, target := range []string{
		"/api/v1/customers/" + customerID,
		"/api/v1/customers/" + customerID + "/transactions",
		"/api/v1/cards/" + cardID,
		"/api/v1/cards/" + cardID + "/sensitive",
		"/api/v1/cards/" + cardID + "/balance",
		"/api/v1/cards/" + cardID + "/limits",
		"/api/v1/cards/" + cardID + "/top-ups",
		"/api/v1/customers/" + customerID + "/applicant",
		"/api/v1/transactions/" + uuidOf("transaction", cardID, "0"),
	} {
		r := request("GET", target, "")
		r.Header.Set(HeaderTenant, "globex")
		ask(t, i, 404, r)
		ask(t, i, 200, request("GET", target, ""))
	}
	r := request("GET", "/api/v1/transactions", "")
	r.Header.Set(HeaderTenant, "globex")
	if total := at(t, ask(t, i, 200, r), "pagination", "total"); total != 0.0 {
		t.Errorf("another tenant sees %v transactions", total)
	}
	twin := request("POST", "/api/v1/customers", ann)
	twin.Header.Set(HeaderTenant, "globex")
	if id := at(t, ask(t, i, 201, twin), "data", "id"); id == customerID {
		t.Error("two tenants got one customer id")
	}
}

func TestSameCallsGiveSameIDs(t *testing.T) {
	first, second := newTestIssuer(Options{}), newTestIssuer(Options{})
	a, b := createAnn(t, first), createAnn(t, second)
	if a != b || !isUUID(a) {
		t.Errorf("customer ids %q and %q", a, b)
	}
	if a, b := issueCard(t, first, a), issueCard(t, second, b); a != b || !isUUID(a) {
		t.Errorf("card ids %q and %q", a, b)
	}
}

func TestBoundsHoldUnderContention(t *testing.T) {
	const callers, bound = 64, 20
	i := newTestIssuer(Options{MaxCustomers: bound})
	statuses := make(chan int, callers)
	for n := range callers {
		go func() {
			w := httptest.NewRecorder()
			i.ServeHTTP(w, request("POST", "/api/v1/customers", strings.Replace(ann, "ann@", fmt.Sprintf("ann%d@", n), 1)))
			statuses <- w.Code
		}()
	}
	count := map[int]int{}
	for range callers {
		count[<-statuses]++
	}
	if count[http.StatusCreated] != bound || count[http.StatusInsufficientStorage] != callers-bound {
		t.Errorf("statuses %v, want %d of 201 and the others 507", count, bound)
	}
}

// TestSlashAtTheEnd: the gateway takes a path with one slash at its end for the same
// operation and forwards it as it was sent.
func TestSlashAtTheEnd(t *testing.T) {
	i := newTestIssuer(Options{})
	ask(t, i, 200, request("GET", "/api/v1/cards/", ""))
	ask(t, i, 200, request("GET", "/api/v1/Customers/?limit=1", ""))
	ask(t, i, 404, request("GET", "/", ""))
}

// TestUnknownFieldsAreWarnedOf: the answer is as without them, and has a line for each.
func TestUnknownFieldsAreWarnedOf(t *testing.T) {
	i := newTestIssuer(Options{})
	many := `{"url":"https://example.com/","\u00e9\n":1,"a1":1,"a2":1,"a3":1,"a4":1,"a5":1,"a6":1}`
	for _, test := range []struct {
		path, body string
		status     int
		want       []string
	}{
		{"customers", ann, 201, nil},
		{"customers", strings.NewReplacer("ann@", "b@", `"first_name"`, `"fisrtName"`).Replace(ann), 201, []string{`unknown field "fisrtName"; did you mean "firstName"?`}},
		{"customers", strings.Replace(ann, `"email"`, `"emial"`, 1), 422, []string{`unknown field "emial"; did you mean "email"?`}},
		{"cards", `{"custmerId":"x","colour":"red"}`, 422, []string{`unknown field "colour"`, `unknown field "custmerId"; did you mean "customerId"?`}},
		{"webhooks", many, 201, []string{`unknown field "a1"`, `unknown field "a2"`, `unknown field "a3"`, `unknown field "a4"`, `unknown field "a5"`}},
		{"webhooks", `{"url":"https://example.com/","\u00e9\n":1}`, 201, []string{`unknown field "\u00e9\n"`}},
		{"webhooks", `[]`, 422, nil},
	} {
		w := httptest.NewRecorder()
		i.ServeHTTP(w, request("POST", "/api/v1/"+test.path, test.body))
		if got := w.Header().Values(HeaderWarning); w.Code != test.status || !slices.Equal(got, test.want) {
			t.Errorf("%s: %d with %q, want %d with %q", test.body, w.Code, got, test.status, test.want)
		}
	}
}
