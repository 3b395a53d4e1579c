package translate_test

import (
	"fmt"
	"time"

	"github.com/card-gateway/card-gateway/translate"
)

// A client of variant C creates a customer at an issuer that uses snake_case.
// The issuer's answer goes back in the shape of variant C.
func Example() {
	sent := []byte(`{"type":"business","email":"office@example.com","phoneCode":"+44","phoneNumber":"7700 900123",` +
		`"countryIsoTwo":"GB","businessName":"Low & Sons","metadata":{"score":1.10}}`)
	body, asked, problems := translate.Request(sent, translate.RequestOptions{
		Operation: translate.Create, Upstream: translate.SnakeCase,
	})
	fmt.Println(asked, problems)
	fmt.Println(string(body))

	answer := []byte(`{"data":{"id":"1","kyc_state":"not_submitted","country":"GB"},"request_id":"req-1"}`)
	received, err := translate.Response(answer, translate.ResponseOptions{Variant: asked})
	fmt.Println(string(received), err)
	// Output:
	// C []
	// {"type":"business","email":"office@example.com","phone_code":"+44","phone_number":"7700 900123","country":"GB","business_name":"Low & Sons","metadata":{"score":1.10}}
	// {"id":"1","kycState":"not_submitted","country":"GB"} <nil>
}

// A body that breaks rules of its variant has one problem for each.
func ExampleRequest() {
	_, asked, problems := translate.Request(
		[]byte(`{"firstName":"Ada","countryIsoTwo":"UK","dateOfBirth":"1990-02-30"}`),
		translate.RequestOptions{Operation: translate.Update},
	)
	fmt.Println(asked)
	for _, p := range problems {
		fmt.Println(p.Field, p.Message)
	}
	// Output:
	// C
	// countryIsoTwo must be an ISO 3166-1 alpha-2 country code in upper case, such as GB
	// dateOfBirth must be a date that exists, as YYYY-MM-DD
}

// An issuer answers a bare record in camelCase. A client of variant A gets an
// envelope and snake_case.
func ExampleResponse() {
	received, err := translate.Response(
		[]byte(`{"id":"1","firstName":"Ada","dateOfBirth":"1815-12-10"}`),
		translate.ResponseOptions{Variant: translate.VariantA, RequestID: "req-1", Now: time.Unix(1_800_000_000, 0)},
	)
	fmt.Println(string(received), err)
	// Output:
	// {"data":{"id":"1","first_name":"Ada","date_of_birth":"1815-12-10T00:00:00Z"},"request_id":"req-1","timestamp":"2027-01-15T08:00:00Z"} <nil>
}
