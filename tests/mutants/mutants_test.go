// Package mutants changes a rule of the gateway, and requires that a test notices.
package mutants

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// chosen is the variable with a regular expression on files: their mutants are
// run. Without it, the list alone is checked.
const chosen = "CARD_TEST_MUTANTS"

// most is the variable with the number of mutants that are run at most.
const most = "CARD_TEST_MUTANTS_MOST"

// A mutant is a line of mutants.txt.
type mutant struct {
	file, before, after string
	dir, tests          string // where and which tests must fail, as for go test -run
	rule                string
}

func readMutants(t *testing.T) []mutant {
	t.Helper()
	text, err := os.ReadFile("mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	unescape := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t")
	var all []mutant
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) != 6 {
			t.Fatalf("%q has %d cells, want 6", line, len(cells))
		}
		all = append(all, mutant{cells[0], unescape.Replace(cells[1]), unescape.Replace(cells[2]), cells[3], cells[4], cells[5]})
	}
	return all
}

// mutated returns the text of the file with the change.
func (m *mutant) mutated(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", m.file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.before); n != 1 {
		t.Fatalf("%s holds %q %d times, want once: change its line in mutants.txt with the rule %q", m.file, m.before, n, m.rule)
	}
	if m.before == m.after {
		t.Fatalf("%s: %q changes nothing", m.file, m.before)
	}
	return strings.Replace(string(text), m.before, m.after, 1)
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// TestList requires that each mutant changes its file, and that the tests exist
// that must notice.
func TestList(t *testing.T) {
	t.Parallel()
	all := readMutants(t)
	if len(all) < 100 {
		t.Errorf("there are %d mutants", len(all))
	}
	names := make(map[string]string)
	for i := range all {
		m := &all[i]
		m.mutated(t)
		if names[m.dir] == "" {
			files, err := filepath.Glob(filepath.Join("../..", m.dir, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, found := range testFunction.FindAllStringSubmatch(string(text), -1) {
					names[m.dir] += " " + found[1] + " "
				}
			}
		}
		for name := range strings.SplitSeq(m.tests, "|") {
			if !strings.Contains(names[m.dir], " "+name+" ") {
				t.Errorf("%s has no test %s, which must notice %q", m.dir, name, m.rule)
			}
		}
	}
}

// TestMutants runs the tests of each chosen mutant: one must fail.
func TestMutants(t *testing.T) {
	which := os.Getenv(chosen)
	if which == "" {
		t.Skip("make mutants runs the mutants; " + chosen + " is a regular expression on their files")
	}
	harness.DependOnSources(t)
	files := regexp.MustCompile(which)
	bound, err := strconv.Atoi(os.Getenv(most))
	if err != nil {
		bound = math.MaxInt
	}
	run := 0
	for _, m := range readMutants(t) {
		if !files.MatchString(m.file) || run == bound {
			continue
		}
		run++
		t.Run(m.file+": "+m.rule, func(t *testing.T) {
			t.Parallel()
			m.mustFail(t)
		})
	}
	if run == 0 {
		t.Logf("no mutant changes a file like %s", which)
	}
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// mustFail runs the tests with the change, through an overlay: the tree is as it
// was.
func (m *mutant) mustFail(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, filepath.Base(m.file))
	original, err := filepath.Abs(filepath.Join("../..", m.file))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: path}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{path: m.mutated(t), filepath.Join(dir, "overlay.json"): string(overlay)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"test", "-overlay", filepath.Join(dir, "overlay.json"), "-count=1", "-failfast", "-vet=off", "-timeout=5m", "-run", "^(" + m.tests + ")$", m.dir}
	if drawsAtRandom(t, m.dir) {
		// A file would be in the tree, and nobody reads a shorter example.
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	}
	cmd := exec.CommandContext(context.Background(), "go", args...)
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	by := failed.FindStringSubmatch(string(out))
	switch {
	case err == nil:
		t.Errorf("survived: %s of %s do not notice that\n%s\nbecame\n%s", m.tests, m.dir, m.before, m.after)
	case strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "[setup failed]"):
		t.Errorf("this is no Go:\n%s", out)
	case by != nil:
		t.Logf("killed by %s.%s", m.dir, by[1])
	default: // a panic or the end of its time
		t.Logf("killed by the end of %s", m.dir)
	}
}

// drawsAtRandom reports whether tests of a directory use rapid, by themselves or
// by the suite of the stores.
func drawsAtRandom(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"pgregory.net/rapid"`) || strings.Contains(string(text), `/store/storetest"`) {
			return true
		}
	}
	return false
}
