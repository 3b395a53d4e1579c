package translate

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// oddDates are values of old records that are not a date in any variant.
var oddDates = rapid.OneOf(
	rapid.SampledFrom([]string{`"0000-00-00"`, `"1990-02-30"`, `"1990-02-30T00:00:00Z"`, `"10.12.1990"`, `"12/10/1990"`, `"unknown"`, "0", "-1", "660787200", "true", "{}", "[1]"}),
	rapid.Map(rapid.String(), func(s string) string {
		text, _ := json.Marshal(s)
		return string(text)
	}),
)

// TestOddDates: an answer shows a date of birth as the issuer wrote it, or the
// day that it holds in the client's form, or nothing at all. Where issuer and
// client have the same form, nothing is withheld.
func TestOddDates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		issuer := rapid.SampledFrom([]Form{SnakeCase, CamelCase}).Draw(t, "issuer")
		client := rapid.SampledFrom([]Variant{VariantA, VariantB, VariantC}).Draw(t, "client")
		value := oddDates.Draw(t, "date")
		const good = `"1990-12-10"`
		name := map[Form]string{SnakeCase: "date_of_birth", CamelCase: "dateOfBirth"}
		answer := `[{"` + name[issuer] + `":` + good + `},{"` + name[issuer] + `":` + value + `}]`
		out, err := Response([]byte(answer), ResponseOptions{Variant: client, List: true})
		if err != nil {
			if issuer == client.form() {
				t.Fatalf("%s is withheld from %s: %v", answer, client, err)
			}
			return
		}
		_, shown, found := strings.Cut(string(out), `},{"`+name[client.form()]+`":`)
		if !found {
			t.Fatalf("%s became %s", answer, out)
		}
		if !strings.HasPrefix(shown, value+"}") {
			var text string
			if err := json.Unmarshal([]byte(value), &text); err != nil || len(text) < dateLength || !validDate([]byte(text[:dateLength])) ||
				!strings.HasPrefix(shown, `"`+text[:dateLength]) {
				t.Fatalf("%s is shown to %s as %s", answer, client, shown)
			}
		}
	})
}

// TestDatesOfOldRecords: what each client sees of a date that each issuer
// stores.
func TestDatesOfOldRecords(t *testing.T) {
	const withheld = ""
	for value, want := range map[string][4]string{ // from snake_case to A and B, from camelCase to A and B
		`null`:                                 {`null`, `null`, `null`, `null`},
		`""`:                                   {`""`, `""`, `""`, `""`},
		`"0000-00-00"`:                         {`"0000-00-00"`, `"0000-00-00"`, withheld, `"0000-00-00"`},
		`"1990-02-30T00:00:00Z"`:               {`"1990-02-30T00:00:00Z"`, withheld, `"1990-02-30T00:00:00Z"`, `"1990-02-30T00:00:00Z"`},
		`"1990-12-10 00:00:00"`:                {`"1990-12-10 00:00:00"`, `"1990-12-10"`, `"1990-12-10T00:00:00"`, `"1990-12-10 00:00:00"`},
		`"1990-12-10t00:00:00"`:                {`"1990-12-10t00:00:00"`, `"1990-12-10"`, `"1990-12-10T00:00:00"`, `"1990-12-10t00:00:00"`},
		`"1990-12-10T00:00:00.000+00:00[UTC]"`: {`"1990-12-10T00:00:00.000+00:00[UTC]"`, `"1990-12-10"`, withheld, `"1990-12-10T00:00:00.000+00:00[UTC]"`},
		`"1990-12-10 00:00:00 UTC"`:            {`"1990-12-10 00:00:00 UTC"`, `"1990-12-10"`, withheld, `"1990-12-10 00:00:00 UTC"`},
		`"1990-12-101"`:                        {`"1990-12-101"`, withheld, withheld, `"1990-12-101"`},
		`"1990-12-10"`:                         {`"1990-12-10T00:00:00Z"`, `"1990-12-10"`, `"1990-12-10T00:00:00Z"`, `"1990-12-10"`},
		`"0001-01-01T00:00:00"`:                {`"0001-01-01T00:00:00"`, `"0001-01-01"`, `"0001-01-01T00:00:00"`, `"0001-01-01"`},
		`"10.12.1990"`:                         {`"10.12.1990"`, withheld, withheld, `"10.12.1990"`},
		`660787200`:                            {`660787200`, withheld, withheld, `660787200`},
	} {
		for i, name := range []string{"date_of_birth", "date_of_birth", "dateOfBirth", "dateOfBirth"} {
			variant, shown := VariantA, "date_of_birth"
			if i%2 == 1 {
				variant, shown = VariantC, "dateOfBirth"
			}
			out, err := Response([]byte(`[{"`+name+`":`+value+`}]`), ResponseOptions{Variant: variant, List: true})
			if want[i] == withheld {
				if err == nil {
					t.Errorf("%s %s is shown to %s as %s", name, value, variant, out)
				}
				continue
			}
			if expected := `[{"` + shown + `":` + want[i] + `}]`; err != nil || !strings.Contains(string(out), expected) {
				t.Errorf("%s %s is shown to %s as %s (%v), want %s", name, value, variant, out, err, expected)
			}
		}
	}
}
