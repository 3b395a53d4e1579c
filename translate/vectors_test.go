package translate_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/translate"
)

const vectors = "../tests/vectors/customers"

func load(t testing.TB, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func operation(name string) translate.Operation {
	if name == "update" {
		return translate.Update
	}
	return translate.Create
}

func fieldsOf(problems []translate.Problem) []string {
	names := []string{}
	for _, p := range problems {
		names = append(names, p.Field)
	}
	return names
}

// TestConstraints runs every published constraint of every variant, against
// both kinds of upstream.
func TestConstraints(t *testing.T) {
	for _, file := range []string{"variant-a.json", "variant-b.json", "variant-c.json"} {
		var v struct {
			Variant    string
			Individual map[string]any
			Business   map[string]any
			Cases      []struct {
				Name, Operation, Of string
				Set                 map[string]any
				Without             []string
				Fields              []string
			}
		}
		load(t, file, &v)
		for _, c := range v.Cases {
			t.Run(v.Variant+"/"+c.Name, func(t *testing.T) {
				body := map[string]any{}
				maps.Copy(body, map[string]map[string]any{"individual": v.Individual, "business": v.Business}[c.Of])
				maps.Copy(body, c.Set)
				for _, name := range c.Without {
					delete(body, name)
				}
				text, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				for _, upstream := range []translate.Form{translate.SnakeCase, translate.CamelCase} {
					_, _, problems := translate.Request(text, translate.RequestOptions{
						Operation: operation(c.Operation), Upstream: upstream, KeyVariant: translate.ParseVariant(v.Variant),
					})
					if got := fieldsOf(problems); !slices.Equal(got, c.Fields) {
						t.Errorf("%s upstream: problems %v, want fields %q", upstream, problems, c.Fields)
					}
				}
			})
		}
	}
}

func TestDocuments(t *testing.T) {
	for _, c := range documents(t) {
		t.Run(c.Name, func(t *testing.T) {
			upstream, ok := translate.ParseForm(c.Upstream)
			if !ok {
				t.Fatalf("upstream %q", c.Upstream)
			}
			before := c.Body
			out, asked, problems := translate.Request([]byte(c.Body), translate.RequestOptions{
				Operation: operation(c.Operation), Upstream: upstream, KeyVariant: translate.ParseVariant(c.KeyVariant),
			})
			if before != c.Body {
				t.Error("the body was written to")
			}
			if c.Fields != nil {
				if got := fieldsOf(problems); !slices.Equal(got, c.Fields) || out != nil {
					t.Errorf("problems %v, want fields %q; text %q", problems, c.Fields, out)
				}
				return
			}
			if len(problems) > 0 || string(out) != c.Want || asked.String() != c.Asked {
				t.Errorf("problems %v\n got %s %q\nwant %s %q", problems, asked, out, c.Asked, c.Want)
			}
		})
	}
}

type documentCase struct {
	Name, Operation, Upstream string
	KeyVariant                string `json:"key_variant"`
	Body, Asked, Want         string
	Fields                    []string
}

func documents(t testing.TB) []documentCase {
	var v struct{ Cases []documentCase }
	load(t, "documents.json", &v)
	return v.Cases
}

type answerCase struct {
	Name, Variant, Body, Want string
	List, Refused             bool
}

func answers(t testing.TB) []answerCase {
	var v struct{ Cases []answerCase }
	load(t, "answers.json", &v)
	return v.Cases
}

func (c *answerCase) options() translate.ResponseOptions {
	return translate.ResponseOptions{
		Variant: translate.ParseVariant(c.Variant), List: c.List, RequestID: "req-1",
		Now: time.Date(2026, 11, 28, 2, 2, 3, 4, time.FixedZone("", 3600)),
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range answers(t) {
		t.Run(c.Name, func(t *testing.T) {
			out, err := translate.Response([]byte(c.Body), c.options())
			if c.Refused {
				if err == nil || out != nil {
					t.Errorf("answered %q", out)
				}
				return
			}
			if err != nil || string(out) != c.Want {
				t.Errorf("error %v\n got %s\nwant %s", err, out, c.Want)
			}
		})
	}
}
