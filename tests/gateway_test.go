package tests

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that ought to happen at once, on a
// machine that may be busy.
const patience = 30 * time.Second

// A gateway is one directory of state and, while it runs, the process on it.
type gateway struct {
	t    testing.TB
	dir  string // short, because a unix socket lies in it
	site site
	addr string // host:port it serves on

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// newGateway makes the directory of a gateway, with a master key, and starts
// nothing.
func newGateway(t testing.TB, s site) *gateway {
	t.Helper()
	dir, err := os.MkdirTemp("", "cg")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, dir: dir, site: s}
	t.Cleanup(func() {
		g.kill()
		g.wantNoAlarm()
		if t.Failed() {
			t.Logf("what the gateway said:\n%s", g.said(4000))
		}
		_ = os.RemoveAll(dir)
	})
	g.write("master.key", masterKey())
	return g
}

// wantNoAlarm fails the test if the process said what no input may make it say.
func (g *gateway) wantNoAlarm() {
	g.t.Helper()
	said := g.read("stderr") + g.read("default.log")
	for _, alarm := range []string{"panic serving", "panic: ", "DATA RACE", "fatal error: "} {
		if at := strings.Index(said, alarm); at >= 0 {
			g.t.Errorf("the gateway said: %s", said[max(0, at-200):min(len(said), at+3000)])
		}
	}
}

// masterKey returns a line of a master key file.
func masterKey() string {
	key := make([]byte, 32)
	rand.Read(key)
	return base64.StdEncoding.EncodeToString(key) + "\n"
}

// startGateway returns a gateway that is ready.
func startGateway(t testing.TB, s site) *gateway {
	t.Helper()
	g := newGateway(t, s)
	g.start()
	return g
}

func (g *gateway) path(name string) string { return filepath.Join(g.dir, name) }

func (g *gateway) write(name, text string) {
	g.t.Helper()
	if err := os.WriteFile(g.path(name), []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateway) read(name string) string {
	text, err := os.ReadFile(g.path(name))
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	return string(text)
}

// run starts the process and returns at once.
func (g *gateway) run() {
	g.t.Helper()
	out, err := os.OpenFile(g.path("stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		g.t.Fatal(err)
	}
	defer out.Close()
	g.write("Caddyfile", g.caddyfile())
	g.cmd = g.command("run", "--config", g.path("Caddyfile"), "--adapter", "caddyfile")
	g.cmd.Stdout, g.cmd.Stderr = out, out
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(g.cmd, g.done)
}

// command returns a call of the binary whose files all lie in the directory.
func (g *gateway) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary(g.t), args...)
	cmd.Dir = g.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "XDG_CONFIG_HOME=" + g.dir, "XDG_DATA_HOME=" + g.dir}
	return cmd
}

// start runs the gateway until it is ready, on another free port when somebody
// else was quicker to take the first.
func (g *gateway) start() {
	g.t.Helper()
	for range 5 {
		g.addr = freeAddress(g.t)
		before := len(g.read("stderr"))
		g.run()
		if g.becomesReady() {
			return
		}
		if !strings.Contains(g.read("stderr")[before:], "address already in use") {
			break
		}
	}
	g.t.Fatalf("the gateway did not become ready:\n%s", g.said(4000))
}

func (g *gateway) becomesReady() bool {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if answer, err := client.Get("http://" + g.addr + "/readyz"); err == nil {
			_ = answer.Body.Close()
			// The sites serve a moment before the configuration is the active
			// one, which the key API asks for.
			if answer.StatusCode == http.StatusOK && g.configured() {
				return true
			}
		}
		select {
		case <-g.done:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return false
}

func (g *gateway) configured() bool {
	status, _ := g.admin(http.MethodGet, "/card-gateway/status", "", "")
	return status == http.StatusOK
}

// refusesToStart runs the gateway and returns what it logged until it ended.
func (g *gateway) refusesToStart() string {
	g.t.Helper()
	g.addr = freeAddress(g.t)
	before := len(g.read("default.log"))
	g.run()
	select {
	case <-g.done:
	case <-time.After(patience):
		g.t.Fatal("the gateway goes on running")
	}
	if code := g.cmd.ProcessState.ExitCode(); code == 0 {
		g.t.Fatal("the gateway ended with code 0")
	}
	return g.read("default.log")[before:] + g.read("stderr")
}

// stop ends the process as a service manager does, and checks that it ends
// well.
func (g *gateway) stop() {
	g.t.Helper()
	g.signal(syscall.SIGTERM)
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		g.t.Errorf("the gateway ended with code %d after SIGTERM", code)
	}
}

// kill ends the process without a chance to write anything.
func (g *gateway) kill() {
	if g.cmd != nil && g.cmd.Process != nil {
		g.signal(syscall.SIGKILL)
	}
}

func (g *gateway) signal(s os.Signal) {
	_ = g.cmd.Process.Signal(s)
	select {
	case <-g.done:
	case <-time.After(patience):
		_ = g.cmd.Process.Kill()
		<-g.done
		g.t.Errorf("the gateway did not end within %s of %s", patience, s)
	}
}

// reload puts another site into the running process.
func (g *gateway) reload(s site) {
	g.t.Helper()
	if err := g.tryReload(s); err != nil {
		g.t.Fatal(err)
	}
}

// tryReload returns the error of a configuration that is refused; the one
// before then goes on.
func (g *gateway) tryReload(s site) error {
	before := g.site
	g.site = s
	status, answer := g.admin(http.MethodPost, "/load", "text/caddyfile", g.caddyfile())
	if status != http.StatusOK {
		g.site = before
		return fmt.Errorf("reload: %d %s", status, answer)
	}
	g.tookOver()
	return nil
}

// tookOver waits until the new configuration takes the connections. The server
// of the old one may accept one more, which Caddy then drops unread.
func (g *gateway) tookOver() {
	g.t.Helper()
	eventually(g.t, "the new configuration answers", func() bool {
		for range 2 {
			if _, err := g.try(&request{method: http.MethodGet, target: "/livez"}); err != nil {
				return false
			}
		}
		return true
	})
}

// said returns the end of the process's standard error and log.
func (g *gateway) said(limit int) string {
	var b strings.Builder
	for _, name := range []string{"stderr", "default.log"} {
		text := g.read(name)
		text = text[max(0, len(text)-limit):]
		fmt.Fprintf(&b, "--- %s\n%s\n", name, text)
	}
	return b.String()
}

// logged waits until a line of the file holds all the parts, and returns it.
func (g *gateway) logged(file string, parts ...string) string {
	g.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
	lines:
		for line := range strings.Lines(g.read(file)) {
			for _, part := range parts {
				if !strings.Contains(line, part) {
					continue lines
				}
			}
			return line
		}
	}
	g.t.Fatalf("%s has no line with %q:\n%s", file, parts, g.said(4000))
	return ""
}

// freeAddress returns an address of this machine that nobody listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// readAll reads a body that is expected to end.
func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
