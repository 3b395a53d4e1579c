//go:build linux

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// The pages whose commands are run.
const (
	firstNodePage    = "docs/deployment.md"
	severalNodesPage = "docs/several-nodes.md"
	maintenancePage  = "docs/maintenance.md"
)

// A walk does what a page says, block by block.
type walk struct {
	t      *testing.T
	page   string
	lab    *lab
	fills  *strings.Replacer // what the page tells the reader to write in place of its own words
	own    string            // where the reader's own shell is
	blocks []placed
}

// A placed block is a block of commands with the heading above it.
type placed struct {
	harness.Block
	heading string
}

// newWalk reads a page from one heading up to another, each a whole line.
func newWalk(t *testing.T, l *lab, page, from, to string) *walk {
	t.Helper()
	w := &walk{t: t, lab: l, fills: strings.NewReplacer(), own: t.TempDir()}
	w.read(page, from, to)
	return w
}

// read takes the blocks of a page from one heading up to another in place of those
// that are left.
func (w *walk) read(page, from, to string) {
	w.t.Helper()
	content, err := os.ReadFile("../../" + page)
	if err != nil {
		w.t.Fatal(err)
	}
	text := string(content)
	begin, end := strings.Index(text, "\n"+from+"\n"), strings.Index(text, "\n"+to+"\n")
	if begin < 0 || end < begin {
		w.t.Fatalf("%s has no part from %q to %q", page, from, to)
	}
	w.page, w.blocks = page, nil
	for _, b := range harness.Blocks(harness.Page{Path: page, Text: text}) {
		before := strings.Join(strings.Split(text, "\n")[:b.Line-1], "\n")
		if b.Language != "sh" || len(before) < begin || len(before) > end {
			continue
		}
		headings := regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(before, -1)
		w.blocks = append(w.blocks, placed{b, headings[len(headings)-1][1]})
	}
}

// next takes the next block, which must have the words, and returns it.
func (w *walk) next(words string) placed {
	w.t.Helper()
	if len(w.blocks) == 0 || !strings.Contains(w.blocks[0].Text, words) {
		w.t.Fatalf("the next block of commands of %s is not the one with %q: %v", w.page, words, w.blocks)
	}
	b := w.blocks[0]
	w.blocks = w.blocks[1:]
	w.t.Logf("%s %s:%d: %s", time.Now().Format("05.000"), w.page, b.Line, b.heading)
	return b
}

// skipTo leaves out the blocks before the one that has the words.
func (w *walk) skipTo(words string) {
	for len(w.blocks) > 0 && !strings.Contains(w.blocks[0].Text, words) {
		w.blocks = w.blocks[1:]
	}
}

// traced makes a shell name the line of the page and the command, with each
// command that it runs and with the one that fails. The lines of the block have the
// numbers of the page.
func (w *walk) traced(b placed) string {
	head := `set -Eeuo pipefail; PS4='+ ` + w.page + `:$LINENO: '; ` +
		`trap 'echo "` + w.page + `:$LINENO: status $?: $BASH_COMMAND" >&2' ERR; set -x`
	return head + strings.Repeat("\n", b.Line) + w.fills.Replace(b.Text)
}

// on runs a block on a machine, in the home of root, and returns what it prints.
func (w *walk) on(m *machine, b placed) string {
	w.t.Helper()
	out, err := patiently(func() *exec.Cmd { return m.command("bash", "-c", "cd; "+w.traced(b), w.page) })
	if err != nil {
		journal, _ := m.command("journalctl", "--no-pager", "--lines", "60").CombinedOutput()
		w.t.Fatalf("%s:%d (%s): the commands fail on %s: %v\n%s\nIts journal:\n%s", w.page, b.Line, b.heading, m.name, err, out, journal)
	}
	return out
}

// here runs a block on the reader's own machine, where the last one ended.
func (w *walk) here(b placed) string {
	w.t.Helper()
	place := filepath.Join(w.lab.dir, "place")
	out, err := patiently(func() *exec.Cmd {
		cmd := exec.Command("bash", "-c", w.traced(b)+"\npwd >'"+place+"'", w.page)
		cmd.Dir = w.own
		cmd.Env = []string{"HOME=" + w.lab.dir, "PATH=" + w.lab.dir + ":" + os.Getenv("PATH")}
		return cmd
	})
	if err != nil {
		w.t.Fatalf("%s:%d (%s): the commands fail on the reader's own machine: %v\n%s", w.page, b.Line, b.heading, err, out)
	}
	now, err := os.ReadFile(place)
	if err != nil {
		w.t.Fatal(err)
	}
	w.own = strings.TrimSpace(string(now))
	return out
}

// patiently runs a command, again as long as it finds the store too slow, as it may
// on a busy machine.
func patiently(command func() *exec.Cmd) (string, error) {
	for deadline := time.Now().Add(harness.Patience); ; {
		out, err := command().CombinedOutput()
		if err == nil || !storeIsSlow(string(out)) || time.Now().After(deadline) {
			return string(out), err
		}
	}
}

// storeIsSlow reports whether a text has what the gateway says when Redis took longer
// than it waits: to a client, whose request it has not forwarded and who signs anew,
// and to an operator.
func storeIsSlow(text string) bool {
	return strings.Contains(text, "The service cannot verify requests at the moment") || strings.Contains(text, "the store cannot answer")
}

// checkout gives a directory what the commands of the page use of the sources. The
// build takes the binary that the other tests have, too.
func (w *walk) checkout(dir string) {
	w.t.Helper()
	build := "#!/bin/sh\nmkdir -p bin && cp built bin/card-gateway-production\n"
	if err := os.WriteFile(filepath.Join(dir, "xcaddy.sh"), []byte(build), 0o700); err != nil {
		w.t.Fatal(err)
	}
	command(w.t, "cp", w.lab.binary, filepath.Join(dir, "built"))
	for _, name := range []string{"Caddyfile.example", "ops"} {
		command(w.t, "cp", "-r", "../../"+name, dir)
	}
}

// want fails the test unless a block has printed the texts.
func (w *walk) want(b placed, out string, texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			w.t.Errorf("%s:%d: the commands print no %q:\n%s", w.page, b.Line, text, out)
		}
	}
}
