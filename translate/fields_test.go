package translate

import (
	"regexp"
	"strings"
	"testing"
)

// TestFields checks the properties of the table that the code relies on.
func TestFields(t *testing.T) {
	snake, camel := regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`), regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
	for i := range fields {
		f := &fields[i]
		name := placeNames[f.in] + f.snake
		if !snake.MatchString(f.snake) || !camel.MatchString(f.camel) {
			t.Errorf("%s: %q is not snake_case or %q not camelCase", name, f.snake, f.camel)
		}
		if strings.ReplaceAll(f.snake, "_", "") != strings.ToLower(f.camel) {
			t.Errorf("%s: %q and %q are different words", name, f.snake, f.camel)
		}
		for _, text := range []string{f.snake, f.camel, f.requestC} {
			if text == "" {
				continue
			}
			s := spellings[f.in][text]
			if s == nil || s.field != i || s.text != text {
				t.Errorf("%s: the spelling %q leads to %+v", name, text, s)
			}
		}
		for _, v := range []Variant{VariantA, VariantB, VariantC} {
			s := spellings[f.in][f.requestName(v)]
			if s == nil || s.field != i || !s.of.has(v) {
				t.Errorf("%s: variant %s writes %q, which is of %+v", name, v, f.requestName(v), s)
			}
			if f.needs[v] == free && (f.check != nil || f.max > 0) {
				t.Errorf("%s: a check that variant %s never makes", name, v)
			}
		}
		if (f.opens != top || f.needs != needs{}) && f.in != top {
			t.Errorf("%s: constraints and inner objects are for the top level", name)
		}
	}
	if fields[typeField].snake != "type" {
		t.Errorf("the field that tells the customer's type is %q", fields[typeField].snake)
	}
}

func TestNames(t *testing.T) {
	for _, form := range []Form{SnakeCase, CamelCase} {
		if got, ok := ParseForm(form.String()); !ok || got != form {
			t.Errorf("form %s read as %s, %v", form, got, ok)
		}
		if form.variant().form() != form {
			t.Errorf("form %s is not the form of its variant", form)
		}
	}
	for _, text := range []string{"", "camelcase", "snake-case", "A"} {
		if _, ok := ParseForm(text); ok {
			t.Errorf("form %q was read", text)
		}
	}
	for _, v := range []Variant{VariantA, VariantB, VariantC} {
		if got := ParseVariant(v.String()); got != v {
			t.Errorf("variant %s read as %s", v, got)
		}
	}
	for _, text := range []string{"", "none", "a", "AB", "D"} {
		if got := ParseVariant(text); got != None {
			t.Errorf("variant %q read as %s", text, got)
		}
	}
	for _, c := range []struct {
		values []string
		asked  Variant
		ok     bool
	}{
		{nil, None, true}, {[]string{"A"}, VariantA, true}, {[]string{"B"}, VariantB, true}, {[]string{"C"}, VariantC, true},
		{[]string{""}, None, false}, {[]string{"c"}, None, false}, {[]string{"none"}, None, false}, {[]string{"A", "A"}, None, false},
	} {
		if asked, ok := AskedVariant(c.values); asked != c.asked || ok != c.ok {
			t.Errorf("%q asks for %s, %v", c.values, asked, ok)
		}
	}
	if Variant(200).String() != "none" {
		t.Error("a variant that does not exist has a name")
	}
}
