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

// startDemo runs what `make run` runs, and returns the variables that it stores
// for clients.
func startDemo(t *testing.T) (env []string) {
	t.Helper()
	port := func() string {
		_, port, err := net.SplitHostPort(harness.FreeAddress(t))
		if err != nil {
			t.Fatal(err)
		}
		return port
	}
	dir := t.TempDir()
	cmd := exec.Command("bash", "../../../demo/run.sh")
	cmd.Env = append(os.Environ(),
		"CARD_GATEWAY_BINARY="+harness.Binary(t), "CARD_GATEWAY_DEMO_DIR="+dir,
		"CARD_GATEWAY_PORT="+port(), "CARD_SANDBOX_PORT="+port(), "CARD_GATEWAY_METRICS_PORT="+port(),
		"CARD_GATEWAY_ADMIN=unix/"+filepath.Join(dir, "admin.sock"),
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
