package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// promisesOf returns what a page promises between two headings: the sentences
// of the README, and the titles in bold of SECURITY.md.
func promisesOf(t *testing.T, page, from, to string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(text), from+"\n")
	part, _, ends := strings.Cut(part, "\n"+to+"\n")
	if !found || !ends {
		t.Fatalf("%s has no part from %q to %q any more", page, from, to)
	}
	return part
}

var bold = regexp.MustCompile(`(?m)^- \*\*([^*]+)\*\*`)

// sentences returns the sentences of paragraphs and lists.
func sentences(text string) []string {
	var all []string
	for block := range strings.SplitSeq(strings.ReplaceAll("\n"+text, "\n- ", "\n\n"), "\n\n") {
		block = strings.Join(strings.Fields(block), " ")
		for sentence := range strings.SplitAfterSeq(block, ". ") {
			if sentence = strings.TrimSpace(sentence); sentence != "" {
				all = append(all, sentence)
			}
		}
	}
	return all
}

var (
	row       = regexp.MustCompile(`(?m)^\| (.*) \|$`)
	namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)`")
)

// TestThreatModel requires that each promise of the README and of SECURITY.md
// has its row in the threat model, with a test where it is kept by one, and that
// every test which the page names exists.
func TestThreatModel(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string) // the rest of a row, by each of its cells
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		for cell := range strings.SplitSeq(m[1], " | ") {
			rows[cell] += m[1]
		}
	}
	promises := sentences(promisesOf(t, "README.md", "# Card Gateway", "```text"))[1:] // the first says what it is
	promises = append(promises, sentences(promisesOf(t, "README.md", "## What it promises", "## More requests"))...)
	for _, m := range bold.FindAllStringSubmatch(promisesOf(t, "SECURITY.md", "## What is promised", "## What is not promised"), -1) {
		promises = append(promises, m[1])
	}
	if len(promises) < 12 {
		t.Errorf("%d promises were found: %q", len(promises), promises)
	}
	for _, promise := range promises {
		if !namedTest.MatchString(rows[promise]) {
			t.Errorf("docs/threat-model.md has no row with a test for the promise %q", promise)
		}
	}
	security, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, unpromised, _ := strings.Cut(string(security), "\n## What is not promised\n")
	for _, m := range bold.FindAllStringSubmatch(unpromised, -1) {
		if rows[m[1]] == "" {
			t.Errorf("docs/threat-model.md does not say that this is not promised: %q", m[1])
		}
	}
	wantTests(t, "docs/threat-model.md", string(text))
}

// TestEveryAttackNamesItsTest requires a test in each row of the tables of
// attacks.
func TestEveryAttackNamesItsTest(t *testing.T) {
	t.Parallel()
	held := 0
	for _, part := range [][2]string{{"## Promises of the README", "## What is not promised"}, {"## What went wrong elsewhere", "## ASVS"}} {
		for _, m := range row.FindAllStringSubmatch(promisesOf(t, "docs/threat-model.md", part[0], part[1]), -1) {
			if head := strings.HasPrefix(m[1], "-") || regexp.MustCompile(`\| (held by|test)$`).MatchString(m[1]); head || strings.HasPrefix(m[1], "---") {
				continue
			}
			held++
			if !namedTest.MatchString(m[1]) {
				t.Errorf("docs/threat-model.md: no test holds %q", m[1])
			}
		}
	}
	if held < 80 {
		t.Errorf("%d rows name a test", held)
	}
}

// wantTests requires that the tests which a page names exist.
func wantTests(t *testing.T, page, text string) {
	t.Helper()
	sources := make(map[string]string)
	for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
		dir, name := m[1], m[2]
		if sources[dir] == "" {
			files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Errorf("%s names a test of %s, which has none (%v)", page, dir, err)
			}
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sources[dir] += string(source)
			}
		}
		if !strings.Contains(sources[dir], "\nfunc "+name+"(") {
			t.Errorf("%s names %s.%s, which does not exist", page, dir, name)
		}
	}
}
