package harness

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Judge is a haproxy between the gateway and the issuer: a second parser of what
// the gateway forwards. It passes on the requests that it reads, and counts those
// that it refuses.
type Judge struct {
	Addr string // what card_forward dials
	dir  string
}

const judgeConfig = `global
	stats socket %[1]s/stats
	maxconn 500
	tune.bufsize 131072
	tune.http.maxhdr 2000
defaults
	mode http
	timeout connect 30s
	timeout client 60s
	timeout server 60s
frontend judge
	bind %[1]s/judge
	default_backend issuer
backend issuer
	server issuer %[2]s
`

// StartJudge starts a haproxy in front of an issuer.
func StartJudge(t testing.TB, issuer string) *Judge {
	t.Helper()
	dir, err := os.MkdirTemp("", "cgj") // short, because sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	j := &Judge{Addr: "unix/" + filepath.Join(dir, "judge"), dir: dir}
	config := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(config, fmt.Appendf(nil, judgeConfig, dir, issuer), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath("haproxy")
	if err != nil {
		path = "/usr/sbin/haproxy"
	}
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd := exec.Command(path, "-db", "-f", config)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; tests/install-tools.sh haproxy installs it", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, _ := os.ReadFile(said.Name()); t.Failed() {
			t.Logf("what haproxy said:\n%s", text)
		}
		_ = os.RemoveAll(dir)
	})
	Eventually(t, "haproxy listens", func() bool {
		conn, err := net.Dial("unix", filepath.Join(dir, "stats"))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return j
}

// Refused returns how many requests haproxy could not read, and what it reports of
// the last one. A connection that ends early is none of them.
func (j *Judge) Refused(t testing.TB) (n int, last string) {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(j.dir, "stats"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "show errors\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	head, last, _ := strings.Cut(string(text), "\n")
	_, count, _ := strings.Cut(head, "] : ")
	if n, err = strconv.Atoi(count); err != nil {
		t.Fatalf("haproxy shows no errors, but %.200q", text)
	}
	return n, last
}
