package ops

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryDegradationIsExplained requires a row of the runbook and a sentence of the
// console for each value of card_gateway_degraded{what}, and none for another word.
func TestEveryDegradationIsExplained(t *testing.T) {
	t.Parallel()
	want := slices.Sorted(slices.Values(closedSets(t)["what"]))
	for path, pattern := range map[string]string{
		"../../docs/runbooks/degraded.md":             "(?m)^\\| ((?:`[a-z]+`(?:, )?)+) \\| [^|]{10,} \\| [^|]{10,} \\|$",
		"../../caddymodule/console/page/attention.js": `(?m)^\t([a-z]+): "[^"]{10,}",$`,
		"../../docs/operations.md":                    "(?m)^\\| `card_gateway_degraded` \\| `what` \\| [^:|]*: ([^|]*), see",
	} {
		found := make(map[string]bool)
		for _, row := range regexp.MustCompile(pattern).FindAllStringSubmatch(readFile(t, path), -1) {
			for _, word := range strings.FieldsFunc(row[1], func(r rune) bool { return r < 'a' || r > 'z' }) {
				found[word] = true
			}
		}
		delete(found, "or") // between the last two of a list
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
			t.Errorf("%s explains %q, want %q", path, got, want)
		}
	}
}
