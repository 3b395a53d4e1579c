package translate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/translate"
)

// TestLimits: a document that would cost much is refused.
func TestLimits(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range n {
			fmt.Fprintf(&b, `"k%d":%d,`, i, i)
		}
		return b.String() + `"email":"a@example.com"}`
	}
	for _, c := range []struct {
		name, body, message string
	}{
		{"10,000 brackets", strings.Repeat("[", 10_000), "32 levels"},
		{"10,000 objects", strings.Repeat(`{"a":`, 10_000), "32 levels"},
		{"100,000 names", many(100_000), "too many"},
		{"a list of a million", `{"a":[` + strings.Repeat("0,", 1_000_000) + `0]}`, "too many"},
		{"4,000 names", many(4_000), ""},
		{"a string of 20 MB", `{"first_name":"` + strings.Repeat("é", 10<<20) + `"}`, "100 characters"},
		{"an address of 20 MB", `{"email":"` + strings.Repeat("(", 20<<20) + `"}`, "email address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, problems := translate.Request([]byte(c.body), translate.RequestOptions{Operation: translate.Update})
			if c.message == "" {
				if len(problems) > 0 {
					t.Errorf("problems %v", problems)
				}
				return
			}
			if len(problems) != 1 || !strings.Contains(problems[0].Message, c.message) {
				t.Errorf("problems %.200v, want one that says %q", problems, c.message)
			}
		})
	}
	t.Run("an answer of 100,000 customers and more", func(t *testing.T) {
		list := "[" + strings.Repeat(`{"first_name":"x"},`, 100_000) + "{}]"
		if _, err := translate.Response([]byte(list), translate.ResponseOptions{Variant: translate.VariantB, List: true, Now: time.Now()}); err != nil {
			t.Error(err)
		}
		list = "[" + strings.Repeat("0,", translate.MaxResponseTokens) + "0]"
		if _, err := translate.Response([]byte(list), translate.ResponseOptions{Variant: translate.VariantB, List: true, Now: time.Now()}); err == nil {
			t.Error("more tokens than are allowed")
		}
	})
}

// TestLongNames: a problem shows only the beginning of a long name.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("é", 5_000)
	_, _, problems := translate.Request([]byte(`{"`+long+`":1,"`+long+`":2}`), translate.RequestOptions{})
	if len(problems) != 1 || len(problems[0].Field) > 110 || !strings.HasSuffix(problems[0].Field, "é…") {
		t.Errorf("problems %v", problems)
	}
}

// TestNothingIsKept: a refused document leaves nothing behind for the next.
func TestNothingIsKept(t *testing.T) {
	opt := translate.RequestOptions{Operation: translate.Update}
	for range 100 {
		translate.Request([]byte(`{"first_name":"x","lastName":"y","address":{"postalCode":[`), opt)
		out, asked, problems := translate.Request([]byte(`{"firstName":"x"}`), opt)
		if string(out) != `{"first_name":"x"}` || asked != translate.VariantB || len(problems) > 0 {
			t.Fatalf("%s %s %v", out, asked, problems)
		}
	}
}
