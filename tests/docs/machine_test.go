//go:build linux

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A machine is a copy of this one without its data, under systemd where that can
// run.
type machine struct {
	name, address string
	cmd           *exec.Cmd
	console       string        // path of what its first process says
	done          chan struct{} // closed when its first process has ended
}

// boot returns machines that run, each with its address in the network.
func (l *lab) boot(t *testing.T, addresses map[string]string) map[string]*machine {
	t.Helper()
	first := "systemd"
	if l.group == "" {
		t.Log("NOT TESTED: systemd needs root, cgroup2 and the units of Debian's redis-server and haproxy, so nothing runs under it")
		first = "none"
	}
	machines := make(map[string]*machine)
	for name, address := range addresses {
		machines[address] = l.start(t, name, address, first)
	}
	for address, m := range machines {
		if !m.booted() && first == "systemd" {
			t.Logf("NOT TESTED: systemd does not start on %s, so nothing there runs under it:\n%s", m.name, m.said())
			_ = m.cmd.Process.Kill()
			<-m.done
			m = l.start(t, m.name, address, "none")
			machines[address] = m
		}
		if !m.booted() {
			t.Fatalf("%s does not start:\n%s", m.name, m.said())
		}
	}
	return machines
}

// start runs the first process of a machine.
func (l *lab) start(t *testing.T, name, address, first string) *machine {
	t.Helper()
	root := filepath.Join(l.dir, name+"-"+first)
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	m := &machine{name: name, address: address, console: root + ".console", done: make(chan struct{})}
	console, err := os.Create(m.console)
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	words, attributes := []string{"machine/boot.sh", root, name, first}, &syscall.SysProcAttr{Cloneflags: namespaces}
	if first == "systemd" {
		group, err := newGroup(filepath.Join(l.group, name))
		if err != nil {
			t.Fatal(err)
		}
		defer group.Close()
		attributes.UseCgroupFD, attributes.CgroupFD = true, int(group.Fd())
		words = append([]string{"unshare", "--cgroup"}, words...)
	}
	m.cmd = exec.Command(words[0], words[1:]...)
	m.cmd.SysProcAttr, m.cmd.Stdout, m.cmd.Stderr = attributes, console, console
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = m.cmd.Wait()
		close(m.done)
	}()
	l.connect(t, m)
	return m
}

// newGroup makes a control group and opens it.
func newGroup(path string) (*os.File, error) {
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// connect gives a machine its address in the network, and the stand-in for ssh its
// process.
func (l *lab) connect(t *testing.T, m *machine) {
	t.Helper()
	pid := fmt.Sprint(m.cmd.Process.Pid)
	command(t, "ip", "link", "add", m.name, "type", "veth", "peer", "name", "eth0", "netns", pid)
	command(t, "ip", "link", "set", m.name, "master", "lab", "up")
	command(t, "nsenter", "--target", pid, "--net", "ip", "address", "add", m.address+"/24", "dev", "eth0")
	command(t, "nsenter", "--target", pid, "--net", "ip", "link", "set", "eth0", "up")
	if err := os.WriteFile(filepath.Join(l.dir, m.address), []byte(pid), 0o600); err != nil {
		t.Fatal(err)
	}
}

// said returns what the first process of the machine has said.
func (m *machine) said() string {
	text, _ := os.ReadFile(m.console)
	return string(text)
}

// booted waits until the machine runs, and reports whether it does.
func (m *machine) booted() bool {
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); {
		state, _ := m.command("systemctl", "is-system-running", "--wait").Output()
		switch strings.TrimSpace(string(state)) {
		case "running", "degraded":
			return true
		}
		select {
		case <-m.done:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// command returns a command that root runs on the machine.
func (m *machine) command(words ...string) *exec.Cmd {
	around := []string{
		"--target", fmt.Sprint(m.cmd.Process.Pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd",
		"/usr/bin/env", "-i", "HOME=/root", "PATH=/stubs:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
	}
	return exec.Command("nsenter", append(around, words...)...)
}
