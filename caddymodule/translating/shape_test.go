package translating

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestShapeOfTheAnswer: X-Card-Variant chooses the shape of the answer, never
// how the body is read, and does not reach the issuer.
func TestShapeOfTheAnswer(t *testing.T) {
	for _, c := range []struct {
		name, operation, keyVariant, asked, sent, heard, want string
	}{
		{"get as A", "get_customer", "C", "A", "", "", inEnvelope(customerA)},
		{"get as B without a variant of the key", "get_customer", "", "B", "", "", inEnvelope(customerB)},
		{"get as C", "get_customer", "A", "C", "", "", customerB},
		{"create with A, answer as C", "create_customer", "B", "C", customerA, customerA, customerB},
		{"create with C, answer as A", "create_customer", "", "A", customerC, customerA, inEnvelope(customerA)},
		{"update with names of B and C, answer as A", "update_customer", "C", "A", `{"firstName":"x"}`, `{"first_name":"x"}`, inEnvelope(customerA)},
		{"update with common names, answer as B", "update_customer", "", "B", `{"state":"x"}`, `{"state":"x"}`, inEnvelope(customerB)},
		{"no header", "get_customer", "C", "", "", "", customerB},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := translateCall{method: http.MethodPost, operation: c.operation, keyVariant: c.keyVariant, body: c.sent, header: http.Header{}}
			if c.asked != "" {
				call.header.Set("X-Card-Variant", c.asked)
			}
			w := call.do(t, func(w http.ResponseWriter, r *http.Request) error {
				if heard, _ := io.ReadAll(r.Body); string(heard) != c.heard {
					t.Errorf("heard %s, want %s", heard, c.heard)
				}
				wantNoShape(t, r)
				return answerJSON(http.StatusOK, inEnvelope(customerA))(w, r)
			})
			if w.Code != http.StatusOK || w.Body.String() != c.want {
				t.Errorf("%d %s\nwant %s", w.Code, w.Body, c.want)
			}
		})
	}
}

// TestShapeNeverReadsTheBody: a body of A is checked by the rules of A, also if
// the client wants the answer in B.
func TestShapeNeverReadsTheBody(t *testing.T) {
	call := translateCall{operation: "create_customer", body: `{"first_name":"x"}`, header: http.Header{"X-Card-Variant": {"B"}}}
	w := call.do(t, answerJSON(http.StatusOK, "{}"))
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"last_name"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestUnknownShape: any other value is 400 on every operation, and nothing
// reaches the issuer.
func TestUnknownShape(t *testing.T) {
	for _, values := range [][]string{{""}, {"a"}, {"D"}, {"A,B"}, {"A", "A"}, {"AB"}, {"none"}, {"A "}} {
		for _, operation := range []string{"create_customer", "get_customer", "list_customers", "get_card", "other"} {
			call := translateCall{method: http.MethodGet, operation: operation, keyVariant: "B", header: http.Header{"X-Card-Variant": values}}
			w := call.do(t, func(http.ResponseWriter, *http.Request) error {
				t.Errorf("%q of %s reached the issuer", values, operation)
				return nil
			})
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"BAD_REQUEST"`) || !strings.Contains(w.Body.String(), "X-Card-Variant") {
				t.Errorf("%q of %s: %d %s", values, operation, w.Code, w.Body)
			}
		}
	}
}

// TestShapeIsNotForwarded: the header is dropped for all operations, translated or
// not, in all spellings that an issuer may read as the same header.
func TestShapeIsNotForwarded(t *testing.T) {
	for _, name := range []string{"X-Card-Variant", "X_Card_Variant", "X-Card_Variant", "x-card-variant"} {
		for _, operation := range []string{"get_customer", "get_card"} {
			call := translateCall{method: http.MethodGet, operation: operation, keyVariant: "B", header: http.Header{name: {"A"}}}
			call.do(t, func(w http.ResponseWriter, r *http.Request) error {
				wantNoShape(t, r)
				return answerJSON(http.StatusOK, customerA)(w, r)
			})
		}
	}
}

func wantNoShape(t *testing.T, r *http.Request) {
	t.Helper()
	for name := range r.Header {
		if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), "X-Card-Variant") {
			t.Errorf("%s reached the issuer", name)
		}
	}
}
