package translate_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/translate"
)

// TestNUL: U+0000 in any string of a request is refused, wherever it is, and
// nothing else that looks like its escape.
func TestNUL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", `\\`, `\"`, "u0000", `\u0001`, `\u00e9`, `\n`})).Draw(t, "text"), "")
		frame := rapid.SampledFrom([]string{`{"first_name":"%"}`, `{"%":1}`, `{"a":["%"]}`, `{"metadata":{"a":[{"%":"b"}]}}`, `{"address":{"city":"%"}}`, `{"a":"","b":"%"}`}).Draw(t, "frame")
		opt := translate.RequestOptions{Operation: translate.Update}
		body := strings.Replace(frame, "%", text, 1)
		if out, _, problems := translate.Request([]byte(body), opt); string(out) != body {
			t.Fatalf("%s became %s, problems %v", body, out, problems)
		}
		body = strings.Replace(frame, "%", text+`\u0000`+text, 1)
		_, _, problems := translate.Request([]byte(body), opt)
		if len(problems) != 1 || !strings.Contains(problems[0].Message, "U+0000") || problems[0].Field == "" {
			t.Fatalf("%s: problems %v", body, problems)
		}
	})
}
