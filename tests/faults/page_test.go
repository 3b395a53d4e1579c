package faults

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !full {
		_ = flag.Set("test.parallel", "6") // they wait for faults, not for a CPU
	}
	code := m.Run()
	if page := os.Getenv("CARD_TEST_FAULTS_PAGE"); page != "" {
		if err := writePage(page, code == 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// The part of the page that the bench writes is between these lines.
const (
	pageBegin = "<!-- begin: written by make faults -->\n"
	pageEnd   = "<!-- end: written by make faults -->\n"
)

// writePage puts what was measured into a page.
func writePage(path string, passed bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), pageBegin)
	_, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %q and %q", path, pageBegin, pageEnd)
	}
	return os.WriteFile(path, []byte(before+pageBegin+measured(passed)+pageEnd+after), 0o644)
}

// measured is the text of what was measured.
func measured(passed bool) string {
	var out bytes.Buffer
	var requests, replays, twice int
	var late time.Duration
	for _, r := range results.all {
		requests += r.requests
		replays += r.replays
		twice += max(r.duplicates, r.repliedTwice)
		late = max(late, r.late)
	}
	fmt.Fprintf(&out, "\n%s, %d CPUs, %s, %s: %d faults, %d requests, %d replays; **%d accepted twice**. Timers were at most %s late.", time.Now().UTC().Format(time.DateOnly),
		runtime.NumCPU(), redisVersion(), runtime.Version(), len(results.all), requests, replays, twice, seconds(late))
	if !passed {
		fmt.Fprint(&out, " **The bench failed:** a promise below was not kept.")
	}
	fmt.Fprint(&out, "\n")
	topologyNow := ""
	for _, r := range results.all {
		if r.topology != topologyNow {
			topologyNow = r.topology
			fmt.Fprintf(&out, "\n### Measured: %s\n\n| fault | promised | requests | 503 | other errors | no answer | 401 | twice | replays | accepted | longest gap | back after | after Redis |\n", topologyNow)
			fmt.Fprint(&out, "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		}
		fmt.Fprintf(&out, "| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %s | %s | %s |\n", r.fault, r.promise, r.requests, r.unavailable, r.failed,
			r.unanswered, r.unauthorized, r.duplicates, r.replays, r.repliedTwice, seconds(r.gap), seconds(r.back), seconds(r.recovered))
	}
	if len(results.histories) > 0 {
		fmt.Fprintf(&out, "\n### Measured: histories\n\n| store | histories | operations | of these with an unknown outcome | not linear | not decided in time |\n|---|---|---|---|---|---|\n")
		for _, h := range results.histories {
			fmt.Fprintf(&out, "| %s | %d | %d | %d | 0 | %d |\n", h.topology, h.checked, (h.checked+h.undecided)*operations, h.unknown, h.undecided)
		}
	}
	fmt.Fprint(&out, "\n")
	return out.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// redisVersion returns the name and the version of the server.
func redisVersion() string {
	out, _ := exec.Command("redis-server", "--version").Output()
	if _, rest, found := strings.Cut(string(out), "v="); found {
		version, _, _ := strings.Cut(rest, " ")
		return "Redis " + version
	}
	return "Redis"
}
