package translate

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// sameLetter holds, by lower-case letter, the characters that some reader of
// JSON takes for it when it ignores case: by EqualFold as Go does, by upper
// case as .NET does, by lower case as Jackson does.
var sameLetter = func() map[rune][]rune {
	same := make(map[rune][]rune)
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		s := string(r)
		lower, upper := strings.ToLower(s), strings.ToUpper(s)
		for letter := 'a'; letter <= 'z' && lower != upper; letter++ {
			small := string(letter)
			if lower == small || upper == strings.ToUpper(small) || strings.EqualFold(s, small) {
				same[letter] = append(same[letter], r)
			}
		}
	}
	return same
}()

// separators are characters between words, and characters that are not visible.
var separators = rapid.OneOf(
	rapid.SampledFrom([]rune("-_. \t")),
	rapid.RuneFrom(nil, unicode.Pd, unicode.Pc, unicode.Zs, unicode.Cf, unicode.Variation_Selector),
)

// drawFolding draws a name that a lax reader takes for the field, and that no
// variant writes.
func drawFolding(t *rapid.T, f *field) string {
	names := []string{f.snake, f.camel}
	if f.requestC != "" {
		names = append(names, f.requestC)
	}
	var b strings.Builder
	separate := func() {
		if rapid.IntRange(0, 9).Draw(t, "separate") == 0 {
			b.WriteRune(separators.Draw(t, "separator"))
		}
	}
	for _, r := range rapid.SampledFrom(names).Draw(t, "name") {
		separate()
		if same := sameLetter[unicode.ToLower(r)]; rapid.Bool().Draw(t, "another") && same != nil {
			r = rapid.SampledFrom(same).Draw(t, "letter")
		}
		if r != '_' || rapid.Bool().Draw(t, "keep") {
			b.WriteRune(r)
		}
	}
	separate()
	name := b.String()
	if spellings[f.in][name] != nil || ownNames[name] {
		t.Skip("a name of its own")
	}
	return name
}

// documentOf returns a customer with members of the names at the place.
func documentOf(at place, names ...string) string {
	members := []string{`"note":{}`}
	for _, name := range names {
		quoted, err := json.Marshal(name)
		if err != nil {
			panic(err)
		}
		members = append(members, string(quoted)+`:"x"`)
	}
	object := "{" + strings.Join(members, ",") + "}"
	if at == top {
		return object
	}
	return `{"` + strings.TrimSuffix(placeNames[at], ".") + `":` + object + "}"
}

// TestFoldedNames: a known field in a spelling that no variant writes is
// refused under that spelling, alone and beside the right one, at each place,
// and withheld in answers.
func TestFoldedNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fields[rapid.IntRange(0, len(fields)-1).Draw(t, "field")]
		name := drawFolding(t, f)
		for _, body := range []string{documentOf(f.in, name), documentOf(f.in, name, f.camel), documentOf(f.in, f.snake, name)} {
			out, _, problems := Request([]byte(body), RequestOptions{Operation: Update})
			found := false
			for _, p := range problems {
				found = found || p.Field == placeNames[f.in]+shortened(name) && strings.Contains(p.Message, "must be spelled "+placeNames[f.in])
			}
			if !found || out != nil {
				t.Fatalf("%s\nproblems %v, text %s", body, problems, out)
			}
			for _, v := range []Variant{VariantA, VariantB, VariantC} {
				for _, answer := range []string{body, "[" + body + "]", `{"data":` + body + "}"} {
					if out, err := Response([]byte(answer), ResponseOptions{Variant: v}); err == nil {
						t.Fatalf("%s is shown to %s as %s", answer, v, out)
					}
				}
			}
		}
	})
}

// TestFoldingOfEnvelopes: the members of an envelope and of a pagination have
// one spelling too.
func TestFoldingOfEnvelopes(t *testing.T) {
	for _, answer := range []string{
		`{"data":{},"Data":{}}`, `{"data":{},"request-id":"x"}`, `{"data":{},"RequestID":"x"}`, `{"timeſtamp":"x","data":{}}`,
		`{"Data":{"first_name":"A"}}`, `{"DATA":[{"firstName":"A"}],"pagination":{}}`, `{"request_id":"x","_data":null}`,
		`{"data":[],"Pagination":{}}`, `{"data":[],"pagination":{"HasMore":true}}`, `{"data":[],"pagination":{"total":1,"Total":2}}`,
	} {
		for _, v := range []Variant{VariantA, VariantB, VariantC} {
			if out, err := Response([]byte(answer), ResponseOptions{Variant: v}); err == nil {
				t.Errorf("%s is shown to %s as %s", answer, v, out)
			}
		}
	}
}

// TestOtherNames: a name that no reader takes for a known field passes.
func TestOtherNames(t *testing.T) {
	for _, name := range []string{
		"_id", "id_", "@type", "$type", "@id", "$ref", "types", "e_mail_address", "countrý", "statе" /* Cyrillic */, "postal_code", "ﬁrst_name",
		strings.Repeat("country", 10), strings.Repeat("-", 1000), "", "_", "first_name_2", "last\u0301_name",
	} {
		body := documentOf(top, name)
		if out, _, problems := Request([]byte(body), RequestOptions{Operation: Update}); string(out) != body {
			t.Errorf("%s became %s, problems %v", body, out, problems)
		}
		if _, err := Response([]byte(body), ResponseOptions{Variant: VariantB}); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}
