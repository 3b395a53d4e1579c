package request

import (
	"os"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/explain"
)

// otherFindings are those that package explain does not have: of other refusals, and
// of card-explain alone.
var otherFindings = []string{
	"scope", "no_operation", "base_path", "content_encoding", "content_type", "charset", "limit",
	"method", "target", "key_id", "header_name", "string_to_sign", "changed_on_the_way", "body_changed_on_the_way",
}

// The page docs/errors.md has one heading for the anchor of every refusal and of every
// finding, and no others but those of its sections.
func TestErrorsPageHasAnAnchorForEachRefusalAndFinding(t *testing.T) {
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
	known := map[string]bool{"errors": true, "how-to-see-what-was-wrong": true, "what-became-of-the-request": true, "of-card-explain-alone": true}
	has := func(heading string) {
		name := strings.TrimPrefix(docURL("https://docs.example/errors", heading), "https://docs.example/errors#")
		known[name] = true
		if headings[name] != 1 {
			t.Errorf("%s: %d headings have the anchor %s", heading, headings[name], name)
		}
	}
	for _, finding := range otherFindings {
		has(finding)
	}
	for _, kind := range explain.Kinds() {
		has(kind.String())
	}
	for _, reason := range auth.Reasons() {
		if reason == auth.Accepted || reason == auth.ClientGone { // nobody reads the answer to who is gone
			continue
		}
		for _, refusal := range []*auth.Refusal{{Reason: reason}, {Reason: reason, Message: "another text"}} {
			has(headingOf(refusal))
		}
	}
	for name := range headings {
		if !known[name] {
			t.Errorf("nothing leads to the heading %s", name)
		}
	}
}

func TestNoPageNoDocURL(t *testing.T) {
	if got := docURL("", "Signature mismatch") + docURL("https://docs.example", ""); got != "" {
		t.Errorf("without docs_url, or of no finding: %q", got)
	}
}
