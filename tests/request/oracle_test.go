package request

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// ownLines are the parts of an answer that differ between any two requests.
var ownLines = regexp.MustCompile(`(?m)^(Date|X-Request-Id): .*$`)

// TestGenericMessagesTellNothing: with generic_messages a stranger who has a key
// id cannot find out whether the key exists. The answer to a wrong signature is
// the same as to an unknown id, for every target, size and type of body.
func TestGenericMessagesTellNothing(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{
		Auth: "generic_messages\nmax_body 1000", Global: harness.CustomerOperations + "\nlock_after 1000",
		Routes: "card_auth {\ngeneric_messages\nmax_body 1000\n}\ncard_translate\nreverse_proxy " + u.Addr,
	})
	known := g.NewKey(nil)
	unknown := harness.Credentials{ID: "ck_live_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Secret: known.Secret}
	large := strings.Repeat("x", 5000)
	for name, make := range map[string]func(harness.Credentials) string{
		"plain":     func(c harness.Credentials) string { return c.Post().Forge().Raw() },
		"no body":   func(c harness.Credentials) string { return c.Get().Forge().Raw() },
		"expects":   func(c harness.Credentials) string { return c.Post().Set("Expect", "100-continue").Forge().Head() },
		"too large": func(c harness.Credentials) string { return c.Request("POST", "/api/v1/cards", large).Forge().Head() },
		"larger still": func(c harness.Credentials) string {
			return c.Post().Set("Content-Length", fmt.Sprint(1<<30)).Forge().Head()
		},
		"another type": func(c harness.Credentials) string {
			return c.Request("POST", "/api/v1/Customers", "a=b").Set("Content-Type", "text/plain").Forge().Raw()
		},
		"compressed": func(c harness.Credentials) string {
			return c.JSON("POST", "/api/v1/Customers", "{}").Set("Content-Encoding", "gzip").Forge().Raw()
		},
		"another hash":  func(c harness.Credentials) string { r := c.Post().Forge(); r.Body = "[1,2,3]"; return r.Raw() },
		"in chunks":     func(c harness.Credentials) string { return chunked(c.Post().Forge()).Raw() },
		"missing scope": func(c harness.Credentials) string { return c.Request("GET", "/api/v1/elsewhere", "").Forge().Raw() },
	} {
		answers := map[harness.Credentials]string{}
		for _, c := range []harness.Credentials{known, unknown} {
			w := g.Connect(t)
			w.WriteText(t, make(c))
			text, err := readAnswer(w)
			if err != nil {
				t.Fatalf("%s: %v after %q", name, err, text)
			}
			answers[c] = ownLines.ReplaceAllString(text, "$1: *")
		}
		if answers[known] != answers[unknown] || !strings.HasPrefix(answers[known], "HTTP/1.1 401 ") {
			t.Errorf("%s: a known key is answered\n%s\nan unknown one\n%s", name, answers[known], answers[unknown])
		}
	}
	u.None(t)
	if got := g.Send(t, known.Get()); got.Status != http.StatusOK {
		t.Errorf("the key itself is answered %s", got)
	}
}
