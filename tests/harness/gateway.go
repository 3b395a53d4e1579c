package harness

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Patience is the longest wait for an event that should happen at once. It is
// long because the machine may be busy.
const Patience = 30 * time.Second

// A Gateway is one directory of state and, while it runs, the process that uses
// it.
type Gateway struct {
	T    testing.TB
	Dir  string // short, because a unix socket is in it
	Site Site
	Env  []string // further variables of its environment
	Addr string   // host:port on which it serves, reserved until the end of the test

	// Tolerate has the alarms in its logs that the test causes.
	Tolerate []string

	oddTime  atomic.Bool // its clock or window is not as in the published interface
	replaced atomic.Bool // a load replaced the admin endpoint, see Admin

	binary string   // replaces the gateway that users run
	around []string // a command that runs the gateway
	cmd    *exec.Cmd
	pid    atomic.Int64
	done   chan struct{} // closed when the process has ended
}

// NewGateway makes the directory of a gateway, with a master key. It starts no
// process.
func NewGateway(t testing.TB, s Site) *Gateway {
	t.Helper()
	dir, err := os.MkdirTemp("", "cg")
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{T: t, Dir: dir, Site: s, Addr: FreeAddress(t)}
	t.Cleanup(func() {
		g.Kill()
		g.wantNoAlarm()
		if t.Failed() {
			t.Logf("what the gateway said:\n%s", g.said(4000))
		}
		_ = os.RemoveAll(dir)
	})
	g.WriteFile("master.key", NewMasterKey())
	g.WriteFile(assertKeyFile, NewMasterKey())
	return g
}

// wantNoAlarm fails the test if the process logged a line that no input can
// cause, or has made the machine trust certificates of the test.
func (g *Gateway) wantNoAlarm() {
	g.T.Helper()
	said := g.ReadFile("stderr") + g.ReadFile("default.log")
	for _, alarm := range []string{"panic serving", "panic: ", "DATA RACE", "fatal error: ", "installing root certificate"} {
		if at := strings.Index(said, alarm); at >= 0 && !slices.Contains(g.Tolerate, alarm) {
			g.T.Errorf("the gateway said: %s", said[max(0, at-200):min(len(said), at+3000)])
		}
	}
}

// NewMasterKey returns a line of a master key file.
func NewMasterKey() string {
	key := make([]byte, 32)
	rand.Read(key)
	return base64.StdEncoding.EncodeToString(key) + "\n"
}

// StartGateway returns a gateway that is ready.
func StartGateway(t testing.TB, s Site) *Gateway {
	t.Helper()
	g := NewGateway(t, s)
	g.Start()
	return g
}

// Path returns the path of a file in the directory.
func (g *Gateway) Path(name string) string { return filepath.Join(g.Dir, name) }

// WriteFile writes a file of the directory.
func (g *Gateway) WriteFile(name, text string) {
	g.T.Helper()
	if name == assertKeyFile {
		theWitness.knowsAssertions(text)
	}
	if err := os.WriteFile(g.Path(name), []byte(text), 0o600); err != nil {
		g.T.Fatal(err)
	}
}

// ReadFile returns a file of the directory; one that does not exist is empty.
func (g *Gateway) ReadFile(name string) string {
	text, err := os.ReadFile(g.Path(name))
	if err != nil && !os.IsNotExist(err) {
		g.T.Fatal(err)
	}
	return string(text)
}

var ofCalls = regexp.MustCompile(`(?m)^.*"logger":"admin\.api".*("received request"|module not configured).*\n`)

// said returns the last lines of the process's standard error and log, without those
// for each call of the key API, such as of a wait for it.
func (g *Gateway) said(limit int) string {
	var b strings.Builder
	for _, name := range []string{"stderr", "default.log"} {
		text := ofCalls.ReplaceAllString(g.ReadFile(name), "")
		text = text[max(0, len(text)-limit):]
		fmt.Fprintf(&b, "--- %s\n%s\n", name, text)
	}
	return b.String()
}

// Logged waits until a line of the file holds all the parts, and returns it.
func (g *Gateway) Logged(file string, parts ...string) string {
	g.T.Helper()
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
	lines:
		for line := range strings.Lines(g.ReadFile(file)) {
			for _, part := range parts {
				if !strings.Contains(line, part) {
					continue lines
				}
			}
			return line
		}
	}
	g.T.Fatalf("%s has no line with %q:\n%s", file, parts, g.said(4000))
	return ""
}
