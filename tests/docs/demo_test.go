package docs

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
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
	first := d.tryPrinted()
	readmeCommands(t, dir, d.port)
	d.tryOperator()
	d.lockAndUnlock()
	d.interrupt()

	for name, secret := range map[string]bool{"master.key": true, "env": true, "admin.tokens": true, "demo-secret": true, "gateway.log": false} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if info, statErr := os.Stat(filepath.Join(dir, name)); err != nil || statErr != nil || info.Mode().Perm() != 0o600 || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v, %v", name, len(text), info, errors.Join(err, statErr))
		}
		if _, value, _ := strings.Cut(first, "CARD_SECRET="); !secret && strings.Contains(string(text), strings.TrimSpace(value)) {
			t.Errorf("%s has the secret of the demo key", name)
		}
	}
	if _, value, _ := strings.Cut(first, "CARD_SECRET="); strings.Contains(d.text(), strings.TrimSpace(value)) {
		t.Errorf("the demo prints the secret, which is in a file of its own:\n%s", d.text())
	}

	again := startDemo(t, dir)
	if second := again.tryPrinted(); keyOf(second) != keyOf(first) || !strings.Contains(second, again.port) {
		t.Errorf("the second start has the key\n%s\nafter\n%s", second, first)
	}
	paste(t, again.source()+` && "`+harness.Binary(t)+`" card-keys rotate --overlap 0 $CARD_KEY_ID`)
	again.interrupt()

	renewed := startDemo(t, dir)
	if third := renewed.tryPrinted(); third == first || strings.Split(third, "\n")[1] != strings.Split(first, "\n")[1] {
		t.Errorf("after its stored secret has ended the demo has the key\n%s\nafter\n%s", third, first)
	}
	renewed.interrupt()
}

// keyOf returns the lines of the file of the key that stay when ports change.
func keyOf(env string) string { return strings.Join(strings.Split(env, "\n")[1:3], "\n") }

// source returns the printed line that reads the file of the key.
func (d *demo) source() string { return d.await(`\. \S+/env`) }

// tryOperator uses what the demo switches on: the token for operators, signed answers,
// a rotation by the holder, and the page that error.doc_url leads to.
func (d *demo) tryOperator() {
	d.t.Helper()
	sign, source := harness.Binary(d.t)+" card-sign -i ", d.source()+"; "
	for command, want := range map[string]string{
		harness.Binary(d.t) + " card-keys show $CARD_KEY_ID":                                                      "demo key of make run",
		`curl -s -H "Authorization: Bearer $CARD_ADMIN_TOKEN" http://$CADDY_ADMIN/card-gateway/keys/$CARD_KEY_ID`: `"status":"active"`,
		sign + "GET $CARD_URL/api/v1/products":                                                                    "X-Response-Signature: ",
		sign + "POST $CARD_URL/gateway/v1/key/rotate":                                                             `"version":2`,
		"curl -s $CARD_URL/docs/errors.md":                                                                        `<h3 id="signature-mismatch">`,
		"curl -s $CARD_URL/docs/rate-limits.md":                                                                   `<h1 id="rate-limits">`,
		"curl -s $CARD_URL/debugger -d target=/ -d method=GET":                                                    "String to sign",
	} {
		if out := paste(d.t, source+command); !strings.Contains(out, want) {
			d.t.Errorf("%s answers without %s:\n%s", command, want, out)
		}
	}
}

// lockAndUnlock fails until the demo warns, then until the key is locked, and pastes
// the printed line.
func (d *demo) lockAndUnlock() {
	d.t.Helper()
	fail := func(times int) string {
		return paste(d.t, d.source()+`; wrong=$CARD_SECRET.; for i in $(seq `+strconv.Itoa(times)+`); do CARD_SECRET=$wrong "`+
			harness.Binary(d.t)+`" card-sign GET $CARD_URL/api/v1/products || true; done`)
	}
	if out := fail(24); strings.Contains(d.text(), "times in a row") {
		d.t.Errorf("the demo warns before the 25th failure:\n%s\n%s", out, d.text())
	}
	out := fail(1)
	if !strings.Contains(out, `"doc_url":"http://127.0.0.1:`+d.port+`/docs/errors.md#signature-mismatch"`) {
		d.t.Errorf("a wrong signature is answered %s", out)
	}
	d.await(`The demo key has failed 25 times in a row; 50 lock it\..*`)
	unlock := d.await(`.* card-keys unlock \$CARD_KEY_ID`)
	fail(25)
	products := d.source() + `; "` + harness.Binary(d.t) + `" card-sign GET $CARD_URL/api/v1/products`
	if out := paste(d.t, products+" || true"); !strings.Contains(out, "401") {
		d.t.Errorf("50 failures do not lock the key: %s", out)
	}
	paste(d.t, unlock)
	if out := paste(d.t, products); !strings.Contains(out, "200 OK") {
		d.t.Errorf("after the printed line the key is answered %s", out)
	}
}

// tryPrinted pastes the two lines that the demo prints last, checks that they
// work, and returns the file of the key.
func (d *demo) tryPrinted() string {
	d.t.Helper()
	source, line := d.source(), d.await(`\S+ card-sign GET .*`)
	if out := paste(d.t, source+"\n"+line); !strings.Contains(out, "200 OK") || !strings.Contains(out, "Sandbox Virtual") {
		d.t.Errorf("the printed lines answer %s", out)
	}
	if !strings.HasSuffix(strings.TrimSpace(d.text()), line) {
		d.t.Errorf("what one needs is not last on the screen:\n%s", d.text())
	}
	text, err := os.ReadFile(strings.TrimPrefix(source, ". "))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

// readmeCommands runs the signed requests of the README.
func readmeCommands(t *testing.T, dir, port string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder // all of them, in one shell
	for _, b := range harness.Blocks(harness.Page{Path: "README.md", Text: string(text)}) {
		if b.Language == "sh" {
			script.WriteString(b.Text)
		}
	}
	out := paste(t, strings.NewReplacer(
		". demo/data/env", ". "+filepath.Join(dir, "env"),
		"127.0.0.1:8080", "127.0.0.1:"+port,
		"bin/card-gateway", harness.Binary(t),
	).Replace(script.String()))
	for _, want := range []string{"Sandbox Virtual", `"dateOfBirth":"1990-12-10"`, `"cardId":`, `"hasMore":true`} {
		if !strings.Contains(out, want) {
			t.Errorf("the commands of README.md print no %s:\n%s", want, out)
		}
	}
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
