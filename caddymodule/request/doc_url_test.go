package request

import (
	"os"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

// The page docs/errors.md has a heading for the anchor of every refusal, and no
// heading of the same name twice.
func TestErrorsPageHasAnAnchorForEachRefusal(t *testing.T) {
	text, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if heading, ok := strings.CutPrefix(line, "#"); ok {
			headings[anchor(strings.TrimSpace(strings.TrimLeft(heading, "#")))]++
		}
	}
	for _, reason := range auth.Reasons() {
		if reason == auth.Accepted || reason == auth.ClientGone { // nobody reads the answer to who is gone
			continue
		}
		for _, refusal := range []*auth.Refusal{{Reason: reason}, {Reason: reason, Message: "another text"}} {
			name, _ := strings.CutPrefix(docURL("https://docs.example/errors", refusal), "https://docs.example/errors#")
			if headings[name] != 1 {
				t.Errorf("%s: %d headings have the anchor %s", reason, headings[name], name)
			}
		}
	}
}

func TestNoPageNoDocURL(t *testing.T) {
	if got := docURL("", &auth.Refusal{Reason: auth.SignatureMismatch}); got != "" {
		t.Errorf("without docs_url: %q", got)
	}
}
