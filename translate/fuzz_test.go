package translate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/card-gateway/card-gateway/translate"
)

// other is a second implementation, on encoding/json. It has its own tables of
// names, and compares values instead of bytes.
type other struct{ to translate.Form }

var otherTop = map[string]string{
	"kycState": "kyc_state", "createdAt": "created_at", "updatedAt": "updated_at", "countryIsoTwo": "country",
}

var otherInner = map[string]map[string]string{
	"business": {"businessName": "business_name", "legalName": "legal_name", "registrationNumber": "registration_number", "taxId": "tax_id"},
	"address":  {"addressLine1": "address_line1", "addressLine2": "address_line2", "postalCode": "postal_code"},
}

func init() {
	for camel, snake := range snakeNames {
		otherTop[camel] = snake
	}
}

func (o other) name(names map[string]string, name string) string {
	for camel, snake := range names {
		switch {
		case camel == "countryIsoTwo":
			if name == camel {
				return snake
			}
		case name == camel && o.to == translate.SnakeCase:
			return snake
		case name == snake && o.to == translate.CamelCase:
			return camel
		}
	}
	return name
}

func (o other) customer(in map[string]any) map[string]any {
	out := make(map[string]any)
	for name, value := range in {
		if inner, ok := value.(map[string]any); ok && otherInner[name] != nil {
			renamed := make(map[string]any)
			for innerName, innerValue := range inner {
				renamed[o.name(otherInner[name], innerName)] = innerValue
			}
			value = renamed
		}
		if text, ok := value.(string); ok && (name == "date_of_birth" || name == "dateOfBirth") {
			value = o.date(text)
		}
		out[o.name(otherTop, name)] = value
	}
	return out
}

func (o other) date(text string) string {
	if o.to == translate.CamelCase {
		return text[:len(time.DateOnly)]
	}
	if len(text) == len(time.DateOnly) {
		return text + midnight
	}
	return text
}

// decode reads one JSON value and nothing behind it.
func decode(text []byte) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("trailing data")
	}
	return value, nil
}

// FuzzRequest: an accepted body has the same meaning to a second parser, with
// other names. A body that is refused as not JSON is refused by the second
// parser too, except for faults that this parser is known to accept.
func FuzzRequest(f *testing.F) {
	for _, c := range documents(f) {
		f.Add([]byte(c.Body), c.Operation == "update", c.Upstream == "camelCase", c.KeyVariant)
	}
	f.Fuzz(func(t *testing.T, body []byte, update, camel bool, key string) {
		opt := translate.RequestOptions{KeyVariant: translate.ParseVariant(key)}
		if update {
			opt.Operation = translate.Update
		}
		if camel {
			opt.Upstream = translate.CamelCase
		}
		before := slices.Clone(body)
		out, asked, problems := translate.Request(body, opt)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was written to")
		}
		meant, err := decode(body)
		if len(problems) > 0 {
			refusedRightly(t, body, out, problems, err)
			return
		}
		if err != nil {
			t.Fatalf("accepted %q, which the other parser refuses: %v", body, err)
		}
		if asked == translate.None && !update {
			t.Fatal("nobody asked")
		}
		got, err := decode(out)
		if want := (other{opt.Upstream}).customer(meant.(map[string]any)); err != nil || !reflect.DeepEqual(got, any(want)) {
			t.Fatalf("error %v\n  of %s\n got %s\nwant %v", err, body, out, want)
		}
		again, _, problems := translate.Request(out, opt)
		if len(problems) == 0 && !bytes.Equal(again, out) {
			t.Fatalf("translated again\n got %s\nwant %s", again, out)
		}
	})
}

func refusedRightly(t *testing.T, body, out []byte, problems []translate.Problem, err error) {
	if out != nil {
		t.Fatal("text in spite of problems")
	}
	for _, p := range problems {
		if p.Message == "" || !utf8.ValidString(p.Field) {
			t.Fatalf("problem %+v", p)
		}
	}
	if err == nil && strings.Contains(problems[0].Message, "not valid JSON") && utf8.Valid(body) && !bytes.Contains(body, []byte(`\u`)) {
		t.Fatalf("%q is refused (%s), the other parser takes it", body, problems[0].Message)
	}
}

// FuzzResponse: an answer is refused or becomes JSON in the shape of the
// variant, and translating it once more changes nothing.
func FuzzResponse(f *testing.F) {
	for _, c := range answers(f) {
		f.Add([]byte(c.Body), c.Variant, c.List)
	}
	f.Fuzz(func(t *testing.T, body []byte, variant string, list bool) {
		opt := translate.ResponseOptions{Variant: translate.ParseVariant(variant), List: list, RequestID: "r"}
		out, err := translate.Response(body, opt)
		if err != nil {
			if out != nil {
				t.Fatal("text in spite of an error")
			}
			return
		}
		if opt.Variant == translate.None {
			return
		}
		value, err := decode(out)
		if err != nil {
			t.Fatalf("%q became %q: %v", body, out, err)
		}
		if opt.Variant == translate.VariantC {
			return
		}
		envelope := value.(map[string]any)
		for _, name := range []string{"data", "request_id", "timestamp"} {
			if _, ok := envelope[name]; !ok {
				t.Fatalf("%q became %q, without %s", body, out, name)
			}
		}
		if again, err := translate.Response(out, opt); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("translated again: error %v\n got %s\nwant %s", err, again, out)
		}
	})
}
