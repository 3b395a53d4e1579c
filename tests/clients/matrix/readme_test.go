package matrix

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// readmeSays are words that the program of each README prints: of the customer,
// the card, the transactions and the document.
var readmeSays = []string{"customer ", "card ", "active", "12 transactions", "document "}

// readme runs the program of the client's README, with the client that was
// installed in dir from its packed artefact alone.
func (l language) readme(t *testing.T, dir string, env []string) {
	program := filepath.Join(t.TempDir(), l.script)
	if err := os.WriteFile(program, []byte(l.program(t)), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "run"), program)
	cmd.Dir = filepath.Dir(program)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, word := range readmeSays {
		if !strings.Contains(string(out), word) {
			t.Errorf("the program does not print %q:\n%s", word, out)
		}
	}
}

// program returns the first block of the README in its language.
func (l language) program(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(l.path("README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range harness.Blocks(harness.Page{Path: l.name + "/README.md", Text: string(text)}) {
		if b.Language == l.fence {
			return b.Text
		}
	}
	t.Fatalf("the README has no block in %s", l.fence)
	return ""
}

// demo starts demo/run.sh with the binary of the tests, and its state in a directory of
// its own.
func demo(t *testing.T) (env []string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("bash", "../../../demo/run.sh")
	cmd.Env = append(os.Environ(), "CARD_GATEWAY_BINARY="+harness.Binary(t), "CARD_GATEWAY_DEMO_DIR="+dir)
	return startDemo(t, cmd, dir)
}

// startDemo runs the command, which runs demo/run.sh on free ports, and returns the
// variables that it stores for clients in its directory.
func startDemo(t *testing.T, cmd *exec.Cmd, dir string) (env []string) {
	t.Helper()
	port := func() string {
		_, port, err := net.SplitHostPort(harness.FreeAddress(t))
		if err != nil {
			t.Fatal(err)
		}
		return port
	}
	cmd.Env = append(cmd.Environ(),
		"CARD_GATEWAY_PORT="+port(), "CARD_SANDBOX_PORT="+port(), "CARD_GATEWAY_METRICS_PORT="+port(),
		"CARD_GATEWAY_ADMIN=unix/"+filepath.Join(t.TempDir(), "admin.sock"),
	)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	for {
		text, err := os.ReadFile(filepath.Join(dir, "env"))
		if err == nil {
			for line := range strings.Lines(string(text)) {
				env = append(env, strings.TrimPrefix(strings.TrimSpace(line), "export "))
			}
			return env
		}
		select {
		case <-ended:
			t.Fatalf("the demo ends:\n%s", said.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestFromACloneToACard copies the checkout, and types what clients/README.md says:
// `make run`, the line that reads the key, and for each client one that runs its program.
func TestFromACloneToACard(t *testing.T) {
	t.Parallel()
	skipWithout(t, []string{"make", "go", "node", "python3"})
	page, err := os.ReadFile("../../../clients/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var typed []string
	for _, b := range harness.Blocks(harness.Page{Path: "clients/README.md", Text: string(page)}) {
		if b.Language == "sh" && strings.Contains(b.Text, "demo/data/env") {
			typed = strings.Split(strings.TrimSpace(b.Text), "\n")
		}
	}
	if len(typed) != 4 || !strings.Contains(string(page), "`make run`") {
		t.Fatalf("clients/README.md says %q", typed)
	}
	clone := t.TempDir()
	if out, err := exec.Command("bash", "-euc", `cd ../../.. && git ls-files -z -co --exclude-standard | tar -c --null -T - | tar -x -C "$0"`, clone).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := exec.Command("make", "run")
	run.Dir = clone
	startDemo(t, run, filepath.Join(clone, "demo/data"))
	for _, program := range typed[1:] {
		cmd := exec.Command("bash", "-euc", typed[0]+"\n"+program)
		cmd.Dir = clone
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), "active") || err != nil {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
	}
	for _, l := range languages {
		for _, file := range []string{"example/main.go", "example.mjs", "example.py"} {
			text, err := os.ReadFile(l.path(file))
			if err == nil && !strings.HasSuffix(string(text), l.program(t)) {
				t.Errorf("%s is not the program of the README", l.path(file))
			}
		}
	}
}
