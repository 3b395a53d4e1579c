package alerts

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The part of the page that `make alerts` writes is between these lines.
const (
	pageBegin = "<!-- begin: written by make alerts -->\n"
	pageEnd   = "<!-- end: written by make alerts -->\n"
)

// writePage puts what was measured into the page that CARD_TEST_ALERTS_PAGE names,
// in the order of the table.
func writePage(t *testing.T, results map[string]result) {
	t.Helper()
	path := os.Getenv("CARD_TEST_ALERTS_PAGE")
	if path == "" {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(text), pageBegin)
	_, tail, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		t.Fatalf("%s has no lines %q and %q", path, pageBegin, pageEnd)
	}
	if err := os.WriteFile(path, []byte(head+pageBegin+measured(t, results)+pageEnd+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// measured is the text of what was measured.
func measured(t *testing.T, results map[string]result) string {
	t.Helper()
	version, err := exec.Command("prometheus", "--version").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s, %d CPUs, Prometheus %s, %s:\n\n", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(),
		strings.Fields(string(version))[2], runtime.Version())
	out.WriteString("| fault | where | the only alert | fires after | by the rules at most |\n|---|---|---|---|---|\n")
	late := fastAlerts(t)
	for i := range faults {
		f := &faults[i]
		where, alert, most := f.on, f.alert, late[f.alert].String()
		if where == "" {
			where = "one gateway on an embedded store"
		}
		if alert == "" {
			alert, most = "none", ""
		}
		r, injected := results[f.name]
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", f.name, where, alert, r.said(injected), most)
	}
	return out.String()
}

// said is how the result stands in the page.
func (r *result) said(injected bool) string {
	switch {
	case !injected:
		return "not injected"
	case r.problem(1) != "":
		return "**" + r.problem(1) + "**"
	case r.alert == "":
		return ""
	}
	text := fmt.Sprintf("%.0f s", r.fired[r.alert].Seconds())
	if later, fires := r.fired[r.then]; fires {
		text += fmt.Sprintf("; %s after %.0f s", r.then, later.Seconds())
	}
	return text
}
