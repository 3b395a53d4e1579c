// Command report reads what `go test -json` writes from standard input, and prints what
// `go test` prints: a line for each package, and all that failed tests have said. At its
// end it says what was skipped and why. It exits 1 if a test failed or none was run.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// An event is a line of `go test -json`.
type event struct{ Action, Package, Test, Output string }

// A report is what is known of the tests so far.
type report struct {
	to      io.Writer
	depth   int                 // passed tests are printed down to this depth of subtests
	said    map[string][]string // by package and test
	reasons []string            // of tests that were skipped
	skipped map[string][]string // tests by reason
	ran     bool
	failed  bool
}

func main() {
	r := report{to: os.Stdout, said: map[string][]string{}, skipped: map[string][]string{}}
	flag.IntVar(&r.depth, "passed", -1, "print passed and skipped tests down to this `depth` of subtests")
	flag.Parse()
	for lines := bufio.NewReader(os.Stdin); ; {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			r.take(e)
		} else {
			_, _ = r.to.Write(line)
		}
		if err != nil {
			break
		}
	}
	if !r.end() {
		os.Exit(1)
	}
}

func (r *report) take(e event) {
	name := e.Package + "." + e.Test
	switch e.Action {
	case "output", "build-output":
		switch {
		case strings.HasPrefix(e.Output, "=== ") || e.Test == "" && e.Output == "PASS\n":
		case e.Test == "":
			fmt.Fprint(r.to, e.Output)
		default:
			r.said[name] = append(r.said[name], e.Output)
		}
		return
	case "fail":
		r.failed = true
		for other, said := range r.said {
			if other == name || e.Test == "" && strings.HasPrefix(other, name) { // those that did not end
				fmt.Fprint(r.to, strings.Join(said, ""))
				delete(r.said, other)
			}
		}
	case "pass", "skip":
		r.ran = true
		said := r.said[name]
		if e.Test == "" || len(said) == 0 {
			return
		}
		last := said[len(said)-1]
		if depth := strings.Count(e.Test, "/"); depth <= r.depth {
			fmt.Fprint(r.to, last)
		}
		if e.Action == "skip" {
			r.skip(name, strings.TrimSpace(strings.Join(said[:len(said)-1], "")))
		}
	default:
		return
	}
	delete(r.said, name)
}

// skip notes why a test was skipped: what it said, without the line of the source.
func (r *report) skip(test, reason string) {
	if _, text, ok := strings.Cut(reason, ": "); ok {
		reason = text
	}
	if !slices.Contains(r.reasons, reason) {
		r.reasons = append(r.reasons, reason)
	}
	r.skipped[reason] = append(r.skipped[reason], test)
}

// end prints what was skipped, and returns whether all is well.
func (r *report) end() bool {
	for _, reason := range r.reasons {
		tests := r.skipped[reason]
		fmt.Fprintf(r.to, "skipped: %s%s: %s\n", tests[0], map[bool]string{true: fmt.Sprintf(" and %d more", len(tests)-1)}[len(tests) > 1], reason)
	}
	if !r.ran && !r.failed {
		fmt.Fprintln(r.to, "FAIL: no test was run")
	}
	return r.ran && !r.failed
}
