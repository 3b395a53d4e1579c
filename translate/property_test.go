package translate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/translate"
)

// names of the fields that have two spellings, by variant.
var snakeNames = map[string]string{
	"firstName": "first_name", "middleName": "middle_name", "lastName": "last_name", "phoneCode": "phone_code",
	"phoneNumber": "phone_number", "businessName": "business_name", "dateOfBirth": "date_of_birth",
	"externalReference": "external_reference",
}

// A customer is generated as the texts of its members, so that the result can
// be compared byte for byte. The date is a field of its own.
type customer struct {
	variant translate.Variant
	members []string // "NAME":value, with %s where a known name stands
	known   []string // those names, in camelCase; "" where a member has none
	day     string
	clock   string // what follows the day in a date-time
}

// text writes the customer as the variant does.
func (c *customer) text(v translate.Variant, clock string) string {
	written := make([]string, len(c.members))
	for i, member := range c.members {
		if c.known[i] == "" {
			written[i] = member
			continue
		}
		name := c.known[i]
		switch snake := snakeNames[name]; {
		case v == translate.VariantA && snake != "":
			name = snake
		case v == translate.VariantC && name == "country":
			name = "countryIsoTwo"
		}
		if c.known[i] == "dateOfBirth" {
			day := c.day
			if v == translate.VariantA {
				day += clock
			}
			member = `%s: "` + day + `"`
		}
		written[i] = fmt.Sprintf(member, `"`+name+`"`)
	}
	return "{\n" + strings.Join(written, " ,\t") + "}"
}

// scalar generates texts of JSON values in all the ways that they can be
// written.
var scalar = rapid.SampledFrom([]string{
	"null", "true", "[]", "{}", "[ ]", "-0", "1.10", "1e2", "1E+400", "9007199254740993", "123456789012345678901234567890",
	`""`, `"\u00e9"`, `"é"`, `"\/"`, `"\ud83d\ude00"`, `"<&>\u2028"`, `{"first_name":1,"firstName":{"date_of_birth":"1990-04-12"}}`,
	`[{"countryIsoTwo":"GB"},[[]]]`, `"1990-04-12"`, `"1990-04-12T00:00:00+02:00"`,
})

// stringText generates the text of a string of at most n characters.
func stringText(n int) *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{"a", "é", `\u00e9`, `\"`, `\\`, `\ud83d\ude00`, "😀", "ß", " ", "&", `\u003c`, "日"})
	return rapid.Map(rapid.SliceOfN(piece, 0, n), func(pieces []string) string { return `"` + strings.Join(pieces, "") + `"` })
}

func drawCustomer(t *rapid.T, v translate.Variant) *customer {
	c := &customer{variant: v}
	add := func(name, value string) { c.known, c.members = append(c.known, name), append(c.members, "%s: "+value) }
	kind := rapid.SampledFrom([]string{"individual", "business"}).Draw(t, "type")
	add("type", `"`+kind+`"`)
	add("firstName", stringText(100).Draw(t, "first"))
	add("lastName", stringText(100).Draw(t, "last"))
	add("email", `"`+rapid.StringMatching(`[a-z0-9+]{1,20}@[a-z]{1,10}\.com`).Draw(t, "email")+`"`)
	add("phoneCode", `"`+rapid.StringMatching(`\+[1-9][0-9]{0,5}`).Draw(t, "code")+`"`)
	add("phoneNumber", `"`+rapid.StringMatching(`[0-9]{1,4}[ -]?[0-9]{0,6}`).Draw(t, "number")+`"`)
	add("country", rapid.SampledFrom([]string{`"GB"`, `"XK"`, `"\u0046R"`}).Draw(t, "country"))
	add("gender", `"`+rapid.SampledFrom([]string{"male", "female", "other"}).Draw(t, "gender")+`"`)
	add("businessName", stringText(20).Draw(t, "business"))
	if rapid.Bool().Draw(t, "with reference") {
		add("externalReference", rapid.OneOf(stringText(200), rapid.Just("null")).Draw(t, "reference"))
	}
	if rapid.Bool().Draw(t, "with middle name") {
		add("middleName", scalar.Draw(t, "middle"))
	}
	at := time.Unix(rapid.Int64Range(-62_000_000_000, 250_000_000_000).Draw(t, "birth"), 0).UTC()
	c.day = at.Format(time.DateOnly)
	c.clock = rapid.SampledFrom([]string{"T00:00:00Z", "T23:00:00+02:00", "T00:30:00.125-11:00", "T12:00", "T23:59:60+0530"}).Draw(t, "clock")
	add("dateOfBirth", "")
	for i := range rapid.IntRange(0, 4).Draw(t, "unknown fields") {
		c.known = append(c.known, "")
		c.members = append(c.members, fmt.Sprintf(`"%s%d" : %s`, rapid.SampledFrom([]string{"metadata", "user_ID", "Éa_", ""}).Draw(t, "name"), i, scalar.Draw(t, "value")))
	}
	order := rapid.Permutation(indices(len(c.members))).Draw(t, "order")
	shuffled := customer{variant: v, day: c.day, clock: c.clock}
	for _, i := range order {
		shuffled.members, shuffled.known = append(shuffled.members, c.members[i]), append(shuffled.known, c.known[i])
	}
	return &shuffled
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

const midnight = "T00:00:00Z"

var forms = rapid.SampledFrom([]translate.Form{translate.SnakeCase, translate.CamelCase})
var allVariants = rapid.SampledFrom([]translate.Variant{translate.VariantA, translate.VariantB, translate.VariantC})

func create(t *rapid.T, text string, upstream translate.Form) (string, translate.Variant) {
	out, asked, problems := translate.Request([]byte(text), translate.RequestOptions{Upstream: upstream})
	if len(problems) > 0 {
		t.Fatalf("%s\nproblems %v", text, problems)
	}
	if !json.Valid(out) {
		t.Fatalf("not JSON: %s", out)
	}
	return string(out), asked
}

// TestRequestIsExact: a customer of every variant gets the names and the date
// of both forms of upstream, and no other byte changes.
func TestRequestIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCustomer(t, allVariants.Draw(t, "variant"))
		upstream := forms.Draw(t, "upstream")
		got, asked := create(t, c.text(c.variant, c.clock), upstream)
		want := c.text(translate.VariantB, "")
		if upstream == translate.SnakeCase {
			clock := midnight
			if c.variant == translate.VariantA {
				clock = c.clock
			}
			want = c.text(translate.VariantA, clock)
		}
		if got != want || asked != c.variant {
			t.Fatalf("asked %s\n got %s\nwant %s", asked, got, want)
		}
	})
}

// TestThereAndBack: a customer converted from A to B and back is the same,
// except for the time of day. What the issuer received is shown to each client
// as that client sent it, with country for the countryIsoTwo of C.
func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawCustomer(t, translate.VariantA)
		b, _ := create(t, a.text(translate.VariantA, a.clock), translate.CamelCase)
		back, asked := create(t, b, translate.SnakeCase)
		if want := a.text(translate.VariantA, midnight); back != want || asked != translate.VariantB {
			t.Fatalf("asked %s\n got %s\nwant %s", asked, back, want)
		}

		c := drawCustomer(t, allVariants.Draw(t, "variant"))
		upstream := forms.Draw(t, "upstream")
		heard, _ := create(t, c.text(c.variant, c.clock), upstream)
		opt := translate.ResponseOptions{Variant: c.variant, RequestID: "r"}
		answer, err := translate.Response([]byte(heard), opt)
		if err != nil {
			t.Fatal(err)
		}
		clock := c.clock
		if upstream == translate.CamelCase {
			clock = midnight
		}
		want := c.text(c.variant, clock)
		if c.variant != translate.VariantC {
			want = `{"data":` + want + `,"request_id":"r","timestamp":"0001-01-01T00:00:00Z"}`
		} else {
			want = c.text(translate.VariantB, "") // the country in a field named country
		}
		if string(answer) != want {
			t.Fatalf("\n got %s\nwant %s", answer, want)
		}
		again, err := translate.Response(answer, opt)
		if err != nil || !bytes.Equal(again, answer) {
			t.Fatalf("translated again: error %v\n got %s\nwant %s", err, again, answer)
		}
	})
}

// TestBareOrEnvelope: whether the upstream answers bare or in an envelope
// makes no difference.
func TestBareOrEnvelope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		record := drawCustomer(t, translate.VariantA).text(rapid.SampledFrom([]translate.Variant{translate.VariantA, translate.VariantB}).Draw(t, "upstream"), midnight)
		list := rapid.Bool().Draw(t, "list")
		if list {
			record = "[" + record + "," + record + "]"
		}
		opt := translate.ResponseOptions{Variant: allVariants.Draw(t, "variant"), List: list, RequestID: "r"}
		bare, err := translate.Response([]byte(record), opt)
		if err != nil {
			t.Fatal(err)
		}
		enveloped, err := translate.Response([]byte(`{"data":`+record+`}`), opt)
		if err != nil || !bytes.Equal(bare, enveloped) {
			t.Fatalf("error %v\n     bare %s\nenveloped %s", err, bare, enveloped)
		}
	})
}
