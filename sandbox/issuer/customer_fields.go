package issuer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/mail"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// A customer is the customer record of the published interface in its
// canonical snake_case form; nil is null.
type customer struct {
	ID                string          `json:"id"`
	Type              *string         `json:"type"`
	FirstName         *string         `json:"first_name"`
	MiddleName        *string         `json:"middle_name"`
	LastName          *string         `json:"last_name"`
	Email             *string         `json:"email"`
	PhoneCode         *string         `json:"phone_code"`
	PhoneNumber       *string         `json:"phone_number"`
	Country           *string         `json:"country"`
	State             *string         `json:"state"`
	Status            string          `json:"status"`
	KYCState          string          `json:"kyc_state"`
	DateOfBirth       *string         `json:"date_of_birth"`
	Gender            *string         `json:"gender"`
	ExternalReference *string         `json:"external_reference"`
	Business          json.RawMessage `json:"business"`
	Address           json.RawMessage `json:"address"`
	Metadata          json.RawMessage `json:"metadata,omitempty"`
	CreatedAt         string          `json:"created_at"`
	UpdatedAt         *string         `json:"updated_at"`

	businessName *string // becomes business if that is missing
	applicant    applicant
}

// A textField is one text of a customer request. check, if set, returns the fault
// of a value, or "". No field is stricter than the published interface, so that
// what passes the gateway passes here.
type textField struct {
	name     string
	at       func(*customer) **string
	max      int // in characters; 0: any number
	required bool
	fixed    bool // cannot be changed after creation
	check    func(value string) string
}

var textFields = []textField{
	{name: "type", at: func(c *customer) **string { return &c.Type }, required: true, fixed: true, check: oneOf("individual", "business")},
	{name: "email", at: func(c *customer) **string { return &c.Email }, max: 254, required: true, fixed: true, check: checkEmail},
	{name: "first_name", at: func(c *customer) **string { return &c.FirstName }, max: 100},
	{name: "middle_name", at: func(c *customer) **string { return &c.MiddleName }, max: 100},
	{name: "last_name", at: func(c *customer) **string { return &c.LastName }, max: 100},
	{name: "phone_code", at: func(c *customer) **string { return &c.PhoneCode }, required: true, check: pattern(`^\+[1-9][0-9]{0,5}$`, "must be a dialling code such as +44")},
	{name: "phone_number", at: func(c *customer) **string { return &c.PhoneNumber }, required: true},
	{name: "country", at: func(c *customer) **string { return &c.Country }, required: true, check: pattern(`^[A-Z]{2}$`, "must be two capital letters (ISO 3166-1 alpha-2)")},
	{name: "state", at: func(c *customer) **string { return &c.State }},
	{name: "date_of_birth", at: func(c *customer) **string { return &c.DateOfBirth }, check: checkDateTime},
	{name: "gender", at: func(c *customer) **string { return &c.Gender }},
	{name: "external_reference", at: func(c *customer) **string { return &c.ExternalReference }, max: 200},
	{name: "business_name", at: func(c *customer) **string { return &c.businessName }},
}

// objectFields are kept as they are written, up to maxObject bytes each, because
// the published interface does not show their members.
var objectFields = []struct {
	name string
	at   func(*customer) *json.RawMessage
}{
	{"business", func(c *customer) *json.RawMessage { return &c.Business }},
	{"address", func(c *customer) *json.RawMessage { return &c.Address }},
	{"metadata", func(c *customer) *json.RawMessage { return &c.Metadata }},
}

const maxObject = 4 << 10

// customerFieldNames returns the names of all fields of a customer request.
func customerFieldNames() []string {
	var names []string
	for _, f := range textFields {
		names = append(names, f.name)
	}
	for _, f := range objectFields {
		names = append(names, f.name)
	}
	return names
}

// apply writes the fields of a request body into the customer and checks the
// result. If creating is true, fixed fields may be set, too. Unknown names are
// ignored, see HeaderWarning. So a camelCase body fails, because required fields are
// missing.
func (cu *customer) apply(body []byte, creating bool) *problem {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil || given == nil {
		return invalid(detail{"", "the body must be one JSON object"})
	}
	var wrong []detail
	for _, f := range textFields {
		if raw, ok := given[f.name]; ok {
			wrong = append(wrong, cu.applyText(f, raw, creating)...)
		}
	}
	for _, f := range objectFields {
		raw, ok := given[f.name]
		switch {
		case !ok:
		case string(raw) == "null":
			*f.at(cu) = nil
		case !bytes.HasPrefix(raw, []byte("{")) || len(raw) > maxObject:
			wrong = append(wrong, detail{f.name, fmt.Sprintf("must be an object of at most %d bytes", maxObject)})
		default:
			*f.at(cu) = raw
		}
	}
	if wrong == nil {
		wrong = cu.missing()
	}
	if wrong != nil {
		return invalid(wrong...)
	}
	if cu.Business == nil && cu.businessName != nil {
		// Marshalling a map of one string cannot fail.
		cu.Business, _ = json.Marshal(map[string]string{"business_name": *cu.businessName})
	}
	return nil
}

func (cu *customer) applyText(f textField, raw json.RawMessage, creating bool) []detail {
	var value *string
	if err := json.Unmarshal(raw, &value); err != nil {
		return []detail{{f.name, "must be a string"}}
	}
	at := f.at(cu)
	if f.fixed && !creating && (value == nil || *value != **at) {
		return []detail{{f.name, "cannot be changed"}}
	}
	if value != nil {
		if f.max > 0 && utf8.RuneCountInString(*value) > f.max {
			return []detail{{f.name, fmt.Sprintf("must have at most %d characters", f.max)}}
		}
		if f.check != nil {
			if message := f.check(*value); message != "" {
				return []detail{{f.name, message}}
			}
		}
	}
	*at = value
	return nil
}

// missing returns a detail for each required field without a value. Required are
// the fields that all three published variants require.
func (cu *customer) missing() []detail {
	var wrong []detail
	need := func(name string, value *string) {
		if value == nil {
			wrong = append(wrong, detail{name, "is required"})
		}
	}
	for _, f := range textFields {
		if f.required {
			need(f.name, *f.at(cu))
		}
	}
	if cu.Type == nil {
		return wrong
	}
	if *cu.Type == "individual" {
		need("date_of_birth", cu.DateOfBirth)
		need("gender", cu.Gender)
	}
	return wrong
}

func oneOf(values ...string) func(string) string {
	return func(value string) string {
		for _, v := range values {
			if v == value {
				return ""
			}
		}
		return fmt.Sprintf("must be one of %q", values)
	}
}

func pattern(expression, message string) func(string) string {
	compiled := regexp.MustCompile(expression)
	return func(value string) string {
		if compiled.MatchString(value) {
			return ""
		}
		return message
	}
}

func checkEmail(value string) string {
	if a, err := mail.ParseAddress(value); err != nil || a.Address != value {
		return "must be an email address"
	}
	return ""
}

// dateTimes are the forms of ISO 8601, extended format, with and without seconds
// and zone. Fractions of a second are read by all that have seconds.
var dateTimes = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02T15:04Z0700", "2006-01-02T15:04Z07",
}

func checkDateTime(value string) string {
	value = strings.Replace(value, ":59:60", ":59:59", 1) // a leap second, which package time does not know
	for _, form := range dateTimes {
		if _, err := time.Parse(form, value); err == nil {
			return ""
		}
	}
	return "must be an ISO 8601 date-time such as 1990-05-17T00:00:00Z"
}
