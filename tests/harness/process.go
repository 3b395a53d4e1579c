package harness

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// run starts the process and returns at once.
func (g *Gateway) run() {
	g.T.Helper()
	out, err := os.OpenFile(g.Path("stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		g.T.Fatal(err)
	}
	defer out.Close()
	g.WriteFile("Caddyfile", g.Caddyfile())
	g.cmd = g.Command("run", "--config", g.Path("Caddyfile"), "--adapter", "caddyfile")
	g.cmd.Stdout, g.cmd.Stderr = out, out
	if err := g.cmd.Start(); err != nil {
		g.T.Fatal(err)
	}
	g.pid.Store(int64(g.cmd.Process.Pid))
	g.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		g.pid.CompareAndSwap(int64(cmd.Process.Pid), 0)
		close(done)
	}(g.cmd, g.done)
}

// Command returns a command that runs the binary. All its files are in the
// directory of the gateway.
func (g *Gateway) Command(args ...string) *exec.Cmd {
	path := g.binary
	if path == "" {
		path = Binary(g.T)
	}
	words := append(append(slices.Clone(g.around), path), args...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = g.Dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.Dir, "XDG_CONFIG_HOME=" + g.Dir, "XDG_DATA_HOME=" + g.Dir}
	cmd.Env = append(cmd.Env, g.Env...)
	return cmd
}

// Start runs the gateway until it is ready.
func (g *Gateway) Start() {
	g.T.Helper()
	g.run()
	if !g.BecomesReady() {
		g.T.Fatalf("the gateway did not become ready:\n%s", g.said(4000))
	}
}

// BecomesReady waits until the gateway is ready. It returns false if the gateway
// has ended instead, or takes too long.
func (g *Gateway) BecomesReady() bool {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(4 * Patience); time.Now().Before(deadline); { // a start is much work for a busy machine
		if answer, err := client.Get("http://" + g.Addr + "/readyz"); err == nil {
			_ = answer.Body.Close()
			// The sites serve a moment before the configuration becomes the active
			// one, and the key API needs the active one.
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

func (g *Gateway) configured() bool {
	status, _ := g.Admin(http.MethodGet, "/card-gateway/status", "", "")
	return status == http.StatusOK
}

// RefusesToStart runs the gateway and returns what it logged until it ended.
func (g *Gateway) RefusesToStart() string {
	g.T.Helper()
	before := len(g.ReadFile("default.log"))
	g.run()
	select {
	case <-g.done:
	case <-time.After(Patience):
		g.T.Fatal("the gateway goes on running")
	}
	if code := g.cmd.ProcessState.ExitCode(); code == 0 {
		g.T.Fatal("the gateway ended with code 0")
	}
	return g.ReadFile("default.log")[before:] + g.ReadFile("stderr")
}

// Stop ends the process as a service manager does, and checks that it ends
// without an error.
func (g *Gateway) Stop() {
	g.T.Helper()
	g.signal(syscall.SIGTERM)
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		g.T.Errorf("the gateway ended with code %d after SIGTERM", code)
	}
}

// Kill ends the process at once. It cannot write anything more.
func (g *Gateway) Kill() {
	if g.cmd != nil && g.cmd.Process != nil {
		g.signal(syscall.SIGKILL)
	}
}

func (g *Gateway) signal(s os.Signal) {
	_ = g.cmd.Process.Signal(s)
	select {
	case <-g.done:
	case <-time.After(Patience):
		_ = g.cmd.Process.Kill()
		<-g.done
		g.T.Errorf("the gateway did not end within %s of %s", Patience, s)
	}
}

// Reload loads the configuration of another site into the running process.
func (g *Gateway) Reload(s Site) {
	g.T.Helper()
	if err := g.TryReload(s); err != nil {
		g.T.Fatal(err)
	}
}

// TryReload loads the configuration of another site, and returns the error if
// it is refused. Then the old configuration still serves.
func (g *Gateway) TryReload(s Site) error {
	before := g.Site
	g.Site = s
	status, answer := g.Admin(http.MethodPost, "/load", "text/caddyfile", g.Caddyfile())
	if status != http.StatusOK {
		g.Site = before
		return fmt.Errorf("reload: %d %s", status, answer)
	}
	g.tookOver()
	return nil
}

// tookOver waits until the new configuration accepts the connections. The
// server of the old one may accept one more connection, which Caddy then drops
// unread.
func (g *Gateway) tookOver() {
	g.T.Helper()
	Eventually(g.T, "the new configuration answers", func() bool {
		for range 2 {
			if _, err := g.Try(&Request{Method: http.MethodGet, Target: "/livez"}); err != nil {
				return false
			}
		}
		return true
	})
}

// ReloadText loads a Caddyfile into the running process that a Site cannot
// describe.
func (g *Gateway) ReloadText(t testing.TB, caddyfile string) {
	t.Helper()
	if status, answer := g.Admin(http.MethodPost, "/load", "text/caddyfile", caddyfile); status != http.StatusOK {
		t.Fatalf("reload: %d %s", status, answer)
	}
	g.tookOver()
}

// StartNotReady runs the gateway until it serves, although it is not ready.
func (g *Gateway) StartNotReady() {
	g.T.Helper()
	g.run()
	Eventually(g.T, "the gateway lives", func() bool {
		answer, err := g.Try(&Request{Method: "GET", Target: "/livez"})
		return err == nil && answer.Status == http.StatusOK && g.configured()
	})
}

// ResidentMemory returns the bytes of memory that the process holds (VmRSS). It
// skips the test where the system does not report them.
func (g *Gateway) ResidentMemory(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		t.Skipf("the memory of a process is not known here: %v", err)
	}
	_, line, _ := strings.Cut(string(status), "VmRSS:")
	var kib int64
	if _, err := fmt.Sscan(line, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// Pid returns the id of the process, 0 while there is none.
func (g *Gateway) Pid() int { return int(g.pid.Load()) }

// Died reports whether the process has ended by itself, or was killed.
func (g *Gateway) Died() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}
