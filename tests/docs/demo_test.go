package docs

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A demo is a running demo/run.sh, which `make run` calls.
type demo struct {
	t    *testing.T
	cmd  *exec.Cmd
	port string

	mu   sync.Mutex
	said bytes.Buffer
}

// startDemo runs the demo with its state in dir, on free ports, with the admin
// endpoint on TCP as by default.
func startDemo(t *testing.T, dir string) *demo {
	t.Helper()
	port := func() string {
		_, port, err := net.SplitHostPort(harness.FreeAddress(t))
		if err != nil {
			t.Fatal(err)
		}
		return port
	}
	d := &demo{t: t, port: port()}
	d.cmd = exec.Command("bash", "../../demo/run.sh")
	d.cmd.Env = append(os.Environ(),
		"CARD_GATEWAY_BINARY="+harness.Binary(t), "CARD_GATEWAY_DEMO_DIR="+dir,
		"CARD_GATEWAY_PORT="+d.port, "CARD_SANDBOX_PORT="+port(), "CARD_GATEWAY_METRICS_PORT="+port(),
		"CARD_GATEWAY_ADMIN=localhost:"+port(),
	)
	d.cmd.Stdout, d.cmd.Stderr = d, d
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Signal(syscall.SIGTERM) })
	return d
}

// Write records the output of the demo.
func (d *demo) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.Write(p)
}

func (d *demo) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.String()
}

// await waits until the demo has printed a line that matches and returns it.
func (d *demo) await(line string) string {
	d.t.Helper()
	wanted := regexp.MustCompile(`(?m)^ *(` + line + `)$`)
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if found := wanted.FindStringSubmatch(d.text()); found != nil {
			return found[1]
		}
	}
	d.t.Fatalf("the demo does not print %s:\n%s", line, d.text())
	return ""
}

// interrupt ends the demo as Ctrl-C does.
func (d *demo) interrupt() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("the demo ends with %v, want 0:\n%s", err, d.text())
	}
	if _, err := http.Get("http://127.0.0.1:" + d.port + "/livez"); err == nil {
		d.t.Error("the demo has ended and something still serves")
	}
}

// paste runs a command like a user who copies it.
func paste(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.Command("bash", "-euc", command)
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s\nfails: %v\n%s", command, err, out)
	}
	return string(out)
}

// TestDemo starts the demo twice and pastes the printed commands, and in between
// those of the README.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDemo(t, dir)
	line := d.await(`CARD_KEY_ID=\S+ CARD_SECRET=\S+ \S+ card-sign .*`)
	if out := paste(t, line); !strings.Contains(out, "200 OK") || !strings.Contains(out, "Sandbox Virtual") {
		t.Errorf("the printed line answers %s", out)
	}
	credentials := regexp.MustCompile(`CARD_KEY_ID=\S+ CARD_SECRET=\S+`).FindString(line)
	readmeCommands(t, credentials, d.port)
	d.interrupt()

	info, err := os.Stat(filepath.Join(dir, "master.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the master key's file: %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "admin.tokens")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the admin token: %v, %v", info, err)
	}
	_, secret, _ := strings.Cut(credentials, "CARD_SECRET=")
	if found := filesWith(t, dir, secret); found != nil {
		t.Errorf("the secret of the demo key is in %v", found)
	}

	again := startDemo(t, dir)
	if out := paste(t, again.await(`\S+ card-keys rotate .*`)); !strings.Contains(out, "secret") {
		t.Errorf("rotate prints %s", out)
	}
	if again.await(`ck_test_\S+`) != strings.TrimPrefix(strings.Fields(credentials)[0], "CARD_KEY_ID=") {
		t.Errorf("the second start has another key than %s:\n%s", credentials, again.text())
	}
	again.interrupt()
}

// readmeCommands runs the README's first signed requests.
func readmeCommands(t *testing.T, credentials, port string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range harness.Blocks(harness.Page{Path: "README.md", Text: string(text)}) {
		if b.Language != "sh" {
			continue
		}
		script := strings.NewReplacer(
			"export CARD_KEY_ID=ck_test_… CARD_SECRET=…", "export "+credentials,
			"127.0.0.1:8080", "127.0.0.1:"+port,
			"bin/card-gateway", harness.Binary(t),
		).Replace(b.Text)
		out := paste(t, script)
		for _, want := range []string{`"dateOfBirth":"1990-12-10"`, `"cardId":`, `"hasMore":true`} {
			if !strings.Contains(out, want) {
				t.Errorf("README.md:%d: the commands print no %s:\n%s", b.Line, want, out)
			}
		}
		return
	}
	t.Error("README.md has no first signed request any more")
}

// filesWith returns the files below dir that hold the text.
func filesWith(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		content, err := io.ReadAll(f)
		if bytes.Contains(content, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestDemoTakesNoTakenPort starts the demo on a port that is in use: Caddy would
// share the port with another Caddy.
func TestDemoTakesNoTakenPort(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, port, _ := net.SplitHostPort(other.Addr().String())
	run := exec.Command("bash", "../../demo/run.sh")
	run.Env = append(os.Environ(), "CARD_GATEWAY_BINARY="+harness.Binary(t), "CARD_GATEWAY_DEMO_DIR="+t.TempDir(), "CARD_GATEWAY_PORT="+port)
	out, err := run.CombinedOutput()
	if err == nil || !strings.Contains(string(out), port+" is taken") || !strings.Contains(string(out), "CARD_GATEWAY_PORT=…") {
		t.Errorf("the demo on a taken port: %v, says\n%s", err, out)
	}
}
