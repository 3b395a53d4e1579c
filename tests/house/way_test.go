package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The way of a request is a table in CONTRIBUTING.md that a maintainer can hold in the
// head: each function exists in its file, there are few stations, and few of them are in
// a file that the request had left.
func TestWayOfARequest(t *testing.T) {
	t.Parallel()
	const mostStations, mostReturns = 22, 6
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| \\d+ \\|.*\\| `([^`]+)` \\| `([^`]+)` \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 15 || len(rows) > mostStations {
		t.Errorf("the table has %d stations, want at most %d", len(rows), mostStations)
	}
	left, returns := make(map[string]bool), 0
	for _, row := range rows {
		file, function := row[1], row[2]
		if left[file] {
			returns++
		}
		left[file] = true
		source, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Error(err)
			continue
		}
		receiver, name, isMethod := strings.Cut(function, ".")
		form := "func " + receiver + "("
		if isMethod {
			form = "func \\(\\w+ \\*?" + receiver + "\\) " + name + "\\("
		} else {
			form = regexp.QuoteMeta(form)
		}
		if !regexp.MustCompile(form).Match(source) {
			t.Errorf("%s has no function %s", file, function)
		}
	}
	if returns > mostReturns {
		t.Errorf("the request comes back to a file %d times, want at most %d", returns, mostReturns)
	}
}
