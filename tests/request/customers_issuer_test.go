package request

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A dialect is one published variant as a client of it writes it.
type dialect struct {
	variant  string
	country  string // name of the country in requests
	customer string // a customer with a %s for the email
	foreign  *regexp.Regexp
	business string   // a business customer with missing fields
	lacks    []string // the names of the missing fields, in order
}

var (
	camelName = regexp.MustCompile(`[A-Z]`)
	snakeName = regexp.MustCompile(`_`)
)

var dialects = []dialect{
	{
		variant: "A", country: "country", foreign: camelName,
		customer: `{"type":"individual","first_name":"Jos\u00e9","last_name":"García","email":"%s","phone_code":"+34","phone_number":"600000000",` +
			`"country":"ES","date_of_birth":"1990-04-12T23:30:00+05:00","gender":"male","external_reference":"a-1",` +
			`"address":{"address_line1":"Gran Vía 1","postal_code":"28013"},"metadata":{"firstName":1.10,"last_name":1e2,"n":12345678901234567890}}`,
		business: `{"type":"business","first_name":"` + strings.Repeat("é", 101) + `","email":"nobody","phone_code":"34","phone_number":"6","country":"es"}`,
		lacks:    []string{"country", "email", "first_name", "last_name", "phone_code"},
	},
	{
		variant: "B", country: "country", foreign: snakeName,
		customer: `{"type":"individual","firstName":"Jos\u00e9","lastName":"García","email":"%s","phoneCode":"+34","phoneNumber":"600000000",` +
			`"country":"ES","dateOfBirth":"1990-04-12","gender":"male","externalReference":"b-1",` +
			`"address":{"addressLine1":"Gran Vía 1","postalCode":"28013"},"metadata":{"firstName":1.10,"last_name":1e2,"n":12345678901234567890}}`,
		business: `{"type":"business","firstName":"` + strings.Repeat("é", 101) + `","email":"nobody","phoneCode":"34","phoneNumber":"6","country":"es"}`,
		lacks:    []string{"businessName", "country", "email", "firstName", "phoneCode"},
	},
	{
		variant: "C", country: "countryIsoTwo", foreign: snakeName,
		customer: `{"type":"individual","firstName":"Jos\u00e9","lastName":"García","email":"%s","phoneCode":"+34","phoneNumber":"600000000",` +
			`"countryIsoTwo":"ES","dateOfBirth":"1990-04-12","gender":"male","externalReference":"c-1",` +
			`"address":{"addressLine1":"Gran Vía 1","postalCode":"28013"},"metadata":{"firstName":1.10,"last_name":1e2,"n":12345678901234567890}}`,
		business: `{"type":"business","firstName":"` + strings.Repeat("é", 101) + `","email":"nobody","phoneCode":"34","phoneNumber":"6","countryIsoTwo":"es"}`,
		lacks:    []string{"businessName", "countryIsoTwo", "email", "firstName", "phoneCode"},
	},
}

// customerMetadata is the value of a map whose names the client chooses; every
// dialect sends it.
const customerMetadata = `"metadata":{"firstName":1.10,"last_name":1e2,"n":12345678901234567890}`

// heard has the bodies that the issuer received.
type heard struct {
	http.Handler
	mu     sync.Mutex
	bodies []string
}

func (h *heard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	h.bodies = append(h.bodies, string(body))
	h.mu.Unlock()
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	h.Handler.ServeHTTP(w, r)
}

// since returns the bodies of the requests since the last call.
func (h *heard) since() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.bodies
	h.bodies = nil
	return all
}

// camelIssuer is a minimal issuer that uses camelCase and answers without an
// envelope.
type camelIssuer struct {
	mu    sync.Mutex
	order []map[string]json.RawMessage
}

func (i *camelIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var given map[string]json.RawMessage
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&given); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	status, answer := i.answer(r.Method, strings.ToLower(r.URL.Path), given)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (i *camelIssuer) answer(method, path string, given map[string]json.RawMessage) (status int, answer any) {
	_, id, one := strings.Cut(path, "/api/v1/customers/")
	at := slices.IndexFunc(i.order, func(c map[string]json.RawMessage) bool {
		return one && string(c["id"]) == `"`+id+`"` || !one && string(c["email"]) == string(given["email"])
	})
	switch {
	case method == http.MethodPost && at >= 0:
		return http.StatusConflict, map[string]any{"error": "emailTaken"}
	case method == http.MethodPost:
		given["id"] = json.RawMessage(fmt.Sprintf(`"00000000-0000-4000-8000-%012d"`, len(i.order)))
		given["status"], given["kycState"] = json.RawMessage(`"active"`), json.RawMessage(`"not_submitted"`)
		given["createdAt"], given["middleName"] = json.RawMessage(`"2026-03-04T05:06:07Z"`), json.RawMessage("null")
		i.order = append(i.order, given)
		return http.StatusCreated, given
	case !one:
		return http.StatusOK, i.order
	case at < 0:
		return http.StatusNotFound, map[string]any{"error": "noSuchCustomer"}
	}
	maps.Copy(i.order[at], given)
	return http.StatusOK, i.order[at]
}
