package caddymodule

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/caddymodule/meter"
)

// The console has a sentence for each trouble that the gateway reports, and for no
// other one.
func TestConsoleExplainsDegradations(t *testing.T) {
	text, err := os.ReadFile("console/page/attention.js")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "const degradations = {")
	block, _, _ = strings.Cut(block, "};")
	var found []string
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+): "[A-Z].*\."`).FindAllStringSubmatch(block, -1) {
		found = append(found, m[1])
	}
	if !slices.Equal(found, meter.Degradations) {
		t.Errorf("the console explains %v, the gateway reports %v", found, meter.Degradations)
	}
}
