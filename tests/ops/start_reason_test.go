package ops

import (
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

	"github.com/card-gateway/card-gateway/tests/harness"
)

// queued returns the Caddyfile of the gateway with the logs that the example has:
// `output card_queue`, or with a path `output card_queue file PATH`.
func queued(g *harness.Gateway, path string) string {
	output := "output card_queue"
	if path != "" {
		output += " file " + path
	}
	text := strings.ReplaceAll(g.Caddyfile(), "level DEBUG", "")
	for _, name := range []string{"default.log", "access.log"} {
		text = strings.Replace(text, "output file "+g.Path(name), output, 1)
	}
	return text
}

// onSocket gives a process a stream socket as its standard error, as systemd does
// with the socket of the journal. It returns a function that starts the process, and
// one that waits for its end and returns what it has written.
func onSocket(t *testing.T, cmd *exec.Cmd) (start func(), end func() string) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, its := os.NewFile(uintptr(pair[0]), "journal"), os.NewFile(uintptr(pair[1]), "stderr")
	t.Cleanup(func() { _ = ours.Close() })
	cmd.Stderr = its
	start = func() {
		t.Helper()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = its.Close()
	}
	return start, func() string {
		t.Helper()
		said, err := io.ReadAll(ours) // until the process has ended
		_ = cmd.Wait()
		if err != nil {
			t.Fatal(err)
		}
		return string(said)
	}
}

// refusal runs the gateway with a Caddyfile that cannot be started, and returns what
// its standard error received.
func refusal(t *testing.T, g *harness.Gateway, caddyfile string) string {
	t.Helper()
	g.WriteFile("Caddyfile", caddyfile)
	cmd := g.Command("run", "--config", g.Path("Caddyfile"), "--adapter", "caddyfile")
	start, end := onSocket(t, cmd)
	start()
	said := end()
	if code := cmd.ProcessState.ExitCode(); code == 0 {
		t.Fatalf("the gateway ended with code 0:\n%s", said)
	}
	return said
}

// occupied returns an address on which something listens.
func occupied(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// A failedStart is a kind of a start that must fail.
type failedStart struct {
	says  string
	spoil func(t *testing.T, g *harness.Gateway)                     // before the Caddyfile is written
	edit  func(t *testing.T, g *harness.Gateway, text string) string // of the Caddyfile
}

// global adds a line to the block card_gateway.
func global(line string) func(*testing.T, *harness.Gateway) {
	return func(_ *testing.T, g *harness.Gateway) {
		g.Site.Global += "\n" + strings.ReplaceAll(line, "DIR", g.Dir)
	}
}

// replaced replaces a text of the Caddyfile.
func replaced(old, text string) func(*testing.T, *harness.Gateway, string) string {
	return func(t *testing.T, g *harness.Gateway, caddyfile string) string {
		old, text := strings.ReplaceAll(old, "DIR", g.Dir), strings.ReplaceAll(text, "DIR", g.Dir)
		if !strings.Contains(caddyfile, old) {
			t.Fatalf("the Caddyfile has no %q", old)
		}
		return strings.Replace(caddyfile, old, text, 1)
	}
}

// masterKey writes the file of the master key.
func masterKey(text string) func(*testing.T, *harness.Gateway) {
	return func(_ *testing.T, g *harness.Gateway) { g.WriteFile("master.key", text) }
}

const masterKeyLine = "master_key file DIR/master.key"

var failedStarts = map[string]failedStart{
	"port in use": {says: "address already in use", spoil: func(t *testing.T, g *harness.Gateway) { g.Addr = occupied(t) }},
	"address of another machine": {says: "cannot assign requested address", edit: func(_ *testing.T, _ *harness.Gateway, text string) string {
		return strings.Replace(text, "bind 127.0.0.1", "bind 192.0.2.1", 1)
	}},
	"admin address in use": {says: "starting caddy administration endpoint", edit: func(t *testing.T, g *harness.Gateway, text string) string {
		return replaced("admin unix/DIR/admin.sock", "admin "+occupied(t))(t, g, text)
	}},
	"admin socket in no directory": {says: "no such file or directory", edit: replaced("admin unix/DIR/admin.sock", "admin unix/DIR/nowhere/admin.sock")},
	"master key of no variable":    {says: "CARD_GATEWAY_NO_SUCH_KEY", edit: replaced(masterKeyLine, "master_key env CARD_GATEWAY_NO_SUCH_KEY")},
	"no master key":                {says: "no master_key is configured", edit: replaced(masterKeyLine, "")},
	"master key in no file":        {says: "no such file or directory", edit: replaced(masterKeyLine, "master_key file DIR/nowhere")},
	"short master key":             {says: "master_key", spoil: masterKey("c2hvcnQ=\n")},
	"empty master key":             {says: "empty", spoil: masterKey("")},
	"another's master key": {says: "master key does not open", spoil: func(_ *testing.T, g *harness.Gateway) {
		g.Start()
		g.NewKey(nil)
		g.Stop()
		g.WriteFile("master.key", harness.NewMasterKey())
	}},
	"directory in use": {says: "another process", spoil: func(t *testing.T, g *harness.Gateway) {
		first := harness.StartGateway(t, harness.Site{Upstream: g.Site.Upstream})
		g.WriteFile("master.key", first.ReadFile("master.key"))
		g.Site.Store = "file " + first.Path("data")
	}},
	"directory that is a file": {says: "not a directory", spoil: func(_ *testing.T, g *harness.Gateway) {
		g.WriteFile("data", "text")
		g.Site.Store = "file " + g.Path("data/store")
	}},
	"a missing brace":            {says: "syntax error", edit: func(_ *testing.T, _ *harness.Gateway, text string) string { return text + "\nexample.com {" }},
	"an unknown directive":       {says: "card_no_such_directive", spoil: func(_ *testing.T, g *harness.Gateway) { g.Site.Extra = "card_no_such_directive" }},
	"an unknown option":          {says: "no_such_option", spoil: global("no_such_option 1")},
	"no block card_gateway":      {says: "no global option card_gateway", edit: withoutApp},
	"a bad limit":                {says: "limit issue_card", spoil: global("limit issue_card 60/never")},
	"a bad operation":            {says: "unknown method", spoil: global("operation list_cards FETCH cards cards:read")},
	"a window that is too short": {says: "window is 1ns", spoil: global("window 1ns")},
	"a Redis that evicts": {says: "noeviction", spoil: func(t *testing.T, g *harness.Gateway) {
		g.Site.Store = harness.StartRedis(t, "--maxmemory-policy", "allkeys-lru").Patient()
	}},
	"an audit file in no directory": {says: "cannot be an audit file", edit: replaced("audit file DIR/audit.log", "audit file DIR/nowhere/audit.log")},
	"a log below a file":            {says: "not a directory", spoil: logBelowFile},
	"a missing certificate":         {says: "cert.pem", spoil: func(t *testing.T, g *harness.Gateway) { g.Site.Sites = tlsSite(t, g) }},
	"a certificate that is none": {says: "PEM", spoil: func(t *testing.T, g *harness.Gateway) {
		g.WriteFile("cert.pem", "text")
		g.WriteFile("key.pem", "text")
		g.Site.Sites = tlsSite(t, g)
	}},
	"a bad key of assertions": {says: "assert", spoil: func(_ *testing.T, g *harness.Gateway) {
		g.Site.Auth = "assert {\nkey file " + g.Path("bad.key") + "\naudience issuer.example\n}"
		g.WriteFile("bad.key", "text")
	}},
	"a bad token file": {says: "there is no role", spoil: func(t *testing.T, g *harness.Gateway) {
		g.WriteFile("tokens", "alice owner x\n")
		global("admin_token file DIR/tokens")(t, g)
	}},
	"handlers in a wrong order": {says: "card_forward", spoil: func(_ *testing.T, g *harness.Gateway) {
		g.Site.Routes = "route {\ncard_forward " + g.Site.Upstream + "\ncard_auth\n}"
	}},
}

func withoutApp(t *testing.T, _ *harness.Gateway, text string) string {
	from := strings.Index(text, "card_gateway {")
	to := strings.Index(text, "servers {")
	if from < 0 || to < from {
		t.Fatalf("no block card_gateway in %s", text)
	}
	return text[:from] + text[to:]
}

func logBelowFile(_ *testing.T, g *harness.Gateway) {
	g.WriteFile("file", "text")
	g.Site.Options = "log other {\noutput card_queue file " + g.Path("file/other.log") + "\n}"
}

func tlsSite(t *testing.T, g *harness.Gateway) string {
	return fmt.Sprintf("https://127.0.0.1:%d {\ntls %s %s\n}", harness.FreePort(t), g.Path("cert.pem"), g.Path("key.pem"))
}

// TestFailedStartSaysWhy starts gateways that must fail, with the logs of the
// example and with a log file. Standard error has the reason, and the audit record
// does not say that the configuration was loaded.
func TestFailedStartSaysWhy(t *testing.T) {
	t.Parallel()
	upstream := harness.StartUpstream(t).Addr
	for name, kind := range failedStarts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := harness.NewGateway(t, harness.Site{Upstream: upstream})
			if kind.spoil != nil {
				kind.spoil(t, g)
			}
			g.Site.Global += "\naudit file " + g.Path("audit.log")
			for _, path := range []string{"", g.Path("logs/gateway.log")} {
				text := queued(g, path)
				if kind.edit != nil {
					text = kind.edit(t, g, text)
				}
				said := refusal(t, g, text)
				if !strings.Contains(lastError(said), kind.says) {
					t.Errorf("log %q: the last error is %q, want %q in it, of\n%s", path, lastError(said), kind.says, said)
				}
			}
			if record := g.ReadFile("audit.log"); strings.Contains(record, `"result":"ok"`) {
				t.Errorf("the audit record says\n%s", record)
			}
		})
	}
}

func lastError(said string) (last string) {
	for line := range strings.Lines(said) {
		if strings.Contains(line, `"level":"error"`) || strings.HasPrefix(line, "Error: ") {
			last = line
		}
	}
	return last
}

// TestOccupiedPort starts a gateway many times whose port is in use. Caddy starts
// its apps in any order. Each time standard error and the log file have the reason,
// and the audit record says that the load failed, and why.
func TestOccupiedPort(t *testing.T) {
	t.Parallel()
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	g.Addr = occupied(t)
	g.Site.Global = "audit file " + g.Path("audit.log")
	const reason = "address already in use"
	const starts = 14
	for i := range starts {
		path := ""
		if i%2 == 1 {
			path = g.Path(fmt.Sprintf("logs/%d.log", i))
		}
		if said := refusal(t, g, queued(g, path)); !strings.Contains(lastError(said), reason) {
			t.Errorf("start %d said\n%s", i, said)
		}
		if path != "" && !strings.Contains(lastError(g.ReadFile(fmt.Sprintf("logs/%d.log", i))), reason) {
			t.Errorf("the log of start %d has no reason", i)
		}
	}
	lines := auditLines(t, g.ReadFile("audit.log"))
	if len(lines) != starts {
		t.Errorf("the record has %d lines of %d starts", len(lines), starts)
	}
	for _, l := range lines {
		if l.Action != "load" || l.Result != "failed" || !strings.Contains(l.Error, reason) {
			t.Errorf("the record has %+v", l)
		}
	}
}

// TestFailedReloadIsRecorded loads a configuration whose port is in use into a
// running gateway. The record has one line for it.
func TestFailedReloadIsRecorded(t *testing.T) {
	t.Parallel()
	g := withAudit(t, harness.Site{})
	key := g.NewKey(nil)
	s := g.Site
	s.Sites = "http://" + occupied(t) + " {\nrespond 404\n}"
	for range 4 {
		if err := g.TryReload(s); err == nil || !strings.Contains(err.Error(), "address already in use") {
			t.Fatalf("the reload: %v", err)
		}
	}
	g.Do(key, "disable")
	harness.Eventually(t, "each refused load has a line", func() bool {
		return strings.Count(g.ReadFile("audit.log"), `"result":"failed"`) == 4
	})
	for i, l := range auditLines(t, g.ReadFile("audit.log")) {
		if ok := l.Result == "ok"; l.Action == "load" && ok != (i == 0) {
			t.Errorf("line %d is %+v", i+1, l)
		}
	}
}

// TestValidateCreatesNoLog validates configurations with a log file, good ones and
// bad ones. The file is not created, and the terminal has the reason.
func TestValidateCreatesNoLog(t *testing.T) {
	t.Parallel()
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	for _, c := range []struct{ global, path, says string }{
		{"", "logs/gateway.log", "Valid configuration"},
		{"window 1ns", "logs/gateway.log", "window"},
		{"", "Caddyfile/gateway.log", "cannot be written"},
	} {
		g.Site.Global = c.global
		g.WriteFile("Caddyfile", queued(g, g.Path(c.path)))
		out, err := g.Command("validate", "--config", g.Path("Caddyfile"), "--adapter", "caddyfile").CombinedOutput()
		if bad := c.says != "Valid configuration"; (err != nil) != bad || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v\n%s", c.says, err, out)
		}
	}
	if _, err := os.Stat(filepath.Dir(g.Path("logs/gateway.log"))); !os.IsNotExist(err) {
		t.Errorf("validate made the directory of the log (%v)", err)
	}
}

// TestLastLinesAreWritten ends gateways in each way that is not a kill. Standard
// error has the last line.
func TestLastLinesAreWritten(t *testing.T) {
	t.Parallel()
	upstream := harness.StartUpstream(t).Addr
	send := func(s syscall.Signal) func(*harness.Gateway, *exec.Cmd) {
		return func(_ *harness.Gateway, cmd *exec.Cmd) { _ = cmd.Process.Signal(s) }
	}
	for name, c := range map[string]struct {
		last string
		end  func(*harness.Gateway, *exec.Cmd)
	}{
		"SIGTERM": {"shutdown complete", send(syscall.SIGTERM)},
		"SIGINT":  {"shutdown complete", send(syscall.SIGINT)},
		"SIGQUIT": {"quitting process immediately", send(syscall.SIGQUIT)},
		"stop":    {"shutdown complete", func(g *harness.Gateway, _ *exec.Cmd) { g.Admin(http.MethodPost, "/stop", "", "") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := harness.NewGateway(t, harness.Site{Upstream: upstream})
			g.WriteFile("Caddyfile", queued(g, ""))
			for range 5 {
				cmd := g.Command("run", "--config", g.Path("Caddyfile"), "--adapter", "caddyfile")
				start, end := onSocket(t, cmd)
				start()
				harness.Eventually(t, "the gateway serves", func() bool {
					status, _, err := g.TryAdmin(http.MethodGet, "/card-gateway/status", "", "")
					return err == nil && status == http.StatusOK
				})
				c.end(g, cmd)
				if said := end(); !strings.Contains(said, c.last) {
					t.Errorf("no %q in\n%s", c.last, said)
				}
			}
		})
	}
}
