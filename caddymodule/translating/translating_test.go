package translating

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/share"
	"github.com/card-gateway/card-gateway/translate"
)

// heldText returns a body as card_auth leaves it for later handlers.
func heldText(text string) *held.Body {
	body := held.NewBody(held.Reservation{})
	_ = body.Write([]byte(text))
	return body
}

// A translateCall is one request through card_translate alone, in the state after
// card_auth.
type translateCall struct {
	method, operation, keyVariant, upstream string
	body                                    string
	header                                  http.Header
	ctx                                     context.Context
	answerMemory                            *held.Memory // nil: not counted
}

// An issuerFunc answers like an issuer. It sees the request as it would go out.
type issuerFunc func(w http.ResponseWriter, r *http.Request) error

func (c translateCall) do(t *testing.T, answer issuerFunc) *httptest.ResponseRecorder {
	t.Helper()
	if c.method == "" {
		c.method = map[string]string{"create_customer": http.MethodPost, "update_customer": http.MethodPatch}[c.operation]
	}
	if c.ctx == nil {
		c.ctx = t.Context()
	}
	h := &Translate{Upstream: c.upstream}
	if h.Upstream == "" {
		h.Upstream = "snake_case"
	}
	h.form, _ = translate.ParseForm(h.Upstream)
	r := httptest.NewRequestWithContext(c.ctx, c.method, "/api/v1/Customers", nil)
	for name, values := range c.header {
		r.Header[name] = values
	}
	if c.body != "" && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	info := &request.Info{
		Reporter: new(request.NewReporter(zap.NewNop(), nil)), RequestID: "req-1", Body: heldText(c.body),
		Operation: &auth.Operation{Name: c.operation}, Key: &auth.Key{CustomerVariant: c.keyVariant}, Answer: c.answerMemory.Reserve(share.Caller{}),
	}
	r = request.With(r, info)
	info.Body.ForwardTo(r)
	w := httptest.NewRecorder()
	w.Header().Set("X-Before", "kept")
	if err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(answer)); err != nil {
		w.Header().Set("Test-Error", err.Error())
	}
	return w
}

// answerJSON is an upstream that answers with the text.
func answerJSON(status int, body string) issuerFunc {
	return func(w http.ResponseWriter, _ *http.Request) error {
		h := w.Header()
		h.Set("Content-Type", "application/json; charset=utf-8")
		h.Set("Content-Length", strconv.Itoa(len(body)))
		h.Set("Etag", `"of-the-upstream"`)
		h.Set("Accept-Ranges", "bytes")
		w.WriteHeader(status)
		_, err := io.WriteString(w, body)
		return err
	}
}

const (
	customerA = `{"type":"individual","first_name":"Zo\u00eb","last_name":"Ng","email":"zoe@example.com","phone_code":"+44","phone_number":"7700 900123","country":"GB","date_of_birth":"1990-04-12T00:00:00Z","gender":"female","metadata":{"first_name":1.10}}`
	customerB = `{"type":"individual","firstName":"Zo\u00eb","lastName":"Ng","email":"zoe@example.com","phoneCode":"+44","phoneNumber":"7700 900123","country":"GB","dateOfBirth":"1990-04-12","gender":"female","metadata":{"first_name":1.10}}`
)

var customerC = strings.Replace(customerB, `"country"`, `"countryIsoTwo"`, 1)

func inEnvelope(data string) string {
	return `{"data":` + data + `,"request_id":"up-1","timestamp":"2026-01-01T00:00:00Z"}`
}

// TestEachVariantCreates: a client of each variant creates a customer at both
// kinds of upstream, which answer bare or in an envelope.
func TestEachVariantCreates(t *testing.T) {
	for _, form := range []struct{ name, heard string }{{"snake_case", customerA}, {"camelCase", customerB}} {
		for _, client := range []struct{ variant, sent, data string }{{"A", customerA, customerA}, {"B", customerB, customerB}, {"C", customerC, customerB}} {
			for _, enveloped := range []bool{false, true} {
				t.Run(form.name+"/"+client.variant+"/enveloped "+strconv.FormatBool(enveloped), func(t *testing.T) {
					w := translateCall{operation: "create_customer", upstream: form.name, body: client.sent}.do(t, func(w http.ResponseWriter, r *http.Request) error {
						heard, err := io.ReadAll(r.Body)
						if err != nil || string(heard) != form.heard {
							t.Errorf("heard %s (%v), want %s", heard, err, form.heard)
						}
						if r.ContentLength != int64(len(heard)) || r.Header.Get("Content-Length") != strconv.Itoa(len(heard)) {
							t.Errorf("Content-Length %d and %q for %d bytes", r.ContentLength, r.Header.Get("Content-Length"), len(heard))
						}
						answer := form.heard
						if enveloped {
							answer = inEnvelope(answer)
						}
						return answerJSON(http.StatusCreated, answer)(w, r)
					})
					got := w.Body.String()
					switch {
					case client.variant == "C":
						if got != client.data {
							t.Errorf("answer %s, want %s", got, client.data)
						}
					case enveloped:
						if got != inEnvelope(client.data) {
							t.Errorf("answer %s, want %s", got, inEnvelope(client.data))
						}
					default:
						if !strings.HasPrefix(got, `{"data":`+client.data+`,"request_id":"req-1","timestamp":"20`) {
							t.Errorf("answer %s", got)
						}
					}
					if w.Code != http.StatusCreated || w.Header().Get("Content-Length") != strconv.Itoa(len(got)) || w.Header().Get("X-Before") != "kept" {
						t.Errorf("status %d, headers %v", w.Code, w.Header())
					}
					for _, name := range []string{"Etag", "Accept-Ranges"} {
						if w.Header().Get(name) != "" {
							t.Errorf("%s speaks of the upstream's bytes", name)
						}
					}
				})
			}
		}
	}
}

func TestReadingFollowsTheKey(t *testing.T) {
	list := "[" + customerA + "," + customerA + "]"
	for _, c := range []struct {
		name, operation, variant, answer, want string
	}{
		{"get as A", "get_customer", "A", inEnvelope(customerA), inEnvelope(customerA)},
		{"get as B", "get_customer", "B", inEnvelope(customerA), inEnvelope(customerB)},
		{"get as C", "get_customer", "C", inEnvelope(customerA), customerB},
		{"get without a variant", "get_customer", "", `{"first_name" : "x","a":1,"a":2}`, `{"first_name" : "x","a":1,"a":2}`},
		{"list as B", "list_customers", "B", `{"data":` + list + `,"pagination":{"total":2},"request_id":"u","timestamp":"t"}`, `{"data":[` + customerB + "," + customerB + `],"pagination":{"total":2},"request_id":"u","timestamp":"t"}`},
		{"list as C", "list_customers", "C", `{"data":` + list + `,"pagination":{"total":2}}`, `{"data":[` + customerB + "," + customerB + `],"pagination":{"total":2}}`},
		{"another operation", "get_card", "B", customerA, customerA},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := translateCall{method: http.MethodGet, operation: c.operation, keyVariant: c.variant}.do(t, answerJSON(http.StatusOK, c.answer))
			if w.Code != http.StatusOK || w.Body.String() != c.want {
				t.Errorf("%d %s\nwant %s", w.Code, w.Body, c.want)
			}
			if untouched := c.answer == c.want && (c.variant == "" || c.operation == "get_card"); untouched != (w.Header().Get("Etag") != "") {
				t.Errorf("Etag %q", w.Header().Get("Etag"))
			}
		})
	}
}

func TestUpdates(t *testing.T) {
	for _, c := range []struct {
		name, keyVariant, sent, heard, answer, want string
	}{
		{"B by its names, whatever the key", "A", `{"firstName":"x"}`, `{"first_name":"x"}`, inEnvelope(customerA), inEnvelope(customerB)},
		{"common names, the key decides", "C", `{"email":"new@example.com"}`, `{"email":"new@example.com"}`, inEnvelope(customerA), customerB},
		{"common names, nobody decides", "", `{"email":"new@example.com"}`, `{"email":"new@example.com"}`, customerA, customerA},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := translateCall{operation: "update_customer", keyVariant: c.keyVariant, body: c.sent}.do(t, func(w http.ResponseWriter, r *http.Request) error {
				if heard, _ := io.ReadAll(r.Body); string(heard) != c.heard {
					t.Errorf("heard %s, want %s", heard, c.heard)
				}
				return answerJSON(http.StatusOK, c.answer)(w, r)
			})
			if w.Body.String() != c.want {
				t.Errorf("answer %s\nwant %s", w.Body, c.want)
			}
		})
	}
}

// TestProblems: the answer lists all problems with the client's names, and
// nothing reaches the upstream.
func TestProblems(t *testing.T) {
	before := testutil.ToFloat64(meter.TranslationsTotal.WithLabelValues("C", "request", "invalid"))
	body := strings.NewReplacer(`"1990-04-12"`, `"1990-02-30"`, `"GB"`, `"UK"`).Replace(customerC)
	w := translateCall{operation: "create_customer", body: body}.do(t, func(http.ResponseWriter, *http.Request) error {
		t.Error("reached the upstream")
		return nil
	})
	var answer struct {
		Error struct {
			Code    string
			Details []auth.FieldError
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusUnprocessableEntity {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	if d := answer.Error.Details; answer.Error.Code != "VALIDATION_FAILED" || len(d) != 2 || d[0].Field != "countryIsoTwo" || d[1].Field != "dateOfBirth" {
		t.Errorf("%+v", answer)
	}
	if got := testutil.ToFloat64(meter.TranslationsTotal.WithLabelValues("C", "request", "invalid")) - before; got != 1 {
		t.Errorf("counted %v times", got)
	}
	for _, body := range []string{"", "[]", customerA + "x"} {
		if w := (translateCall{operation: "update_customer", body: body}).do(t, answerJSON(200, "{}")); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"details":[{"message":`) {
			t.Errorf("%q: %d %s; want one fault of the whole document, without a field", body, w.Code, w.Body)
		}
	}
}

// TestUndeclaredBody: in a dry run a body of another type reaches card_translate.
// It passes unchanged.
func TestUndeclaredBody(t *testing.T) {
	w := translateCall{operation: "create_customer", body: "first_name=x", header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}.do(t,
		func(w http.ResponseWriter, r *http.Request) error {
			_, err := io.Copy(w, r.Body)
			return err
		})
	if w.Body.String() != "first_name=x" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestTranslateCaddyfile(t *testing.T) {
	for _, c := range []struct{ input, upstream, wrong string }{
		{"card_translate", "", ""},
		{"card_translate {\n}", "", ""},
		{"card_translate {\n upstream snake_case\n}", "snake_case", ""},
		{"card_translate {\n upstream camelCase\n}", "camelCase", ""},
		{"card_translate {\n upstream camelcase\n}", "", "must be snake_case or camelCase"},
		{"card_translate {\n upstream\n}", "", "needs snake_case or camelCase"},
		{"card_translate {\n upstream snake_case twice\n}", "", `unexpected argument "twice"`},
		{"card_translate camelCase", "", `unexpected argument "camelCase"`},
		{"card_translate {\n downstream camelCase\n}", "", "unknown option downstream"},
	} {
		h := new(Translate)
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(c.input))
		switch {
		case c.wrong == "" && (err != nil || h.Upstream != c.upstream):
			t.Errorf("%q: upstream %q, error %v", c.input, h.Upstream, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%q: error %v, want %q", c.input, err, c.wrong)
		}
	}
	if err := (&Translate{Upstream: "kebab-case"}).Validate(); err == nil {
		t.Error("a form that does not exist is valid")
	}
}

func TestTranslatedOperations(t *testing.T) {
	for name, want := range map[string]bool{
		"create_customer": true, "update_customer": true, "get_customer": true, "list_customers": true,
		"get_card": false, "list_customer_transactions": false, "other": false, "": false,
	} {
		if TranslatedOperation(name) != want {
			t.Errorf("%s: translated %v, want %v", name, !want, want)
		}
	}
}
