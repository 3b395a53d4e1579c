//go:build linux

package docs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// The variables by which a test knows that it runs in a lab: the binary of the
// gateway, and the control group under which systemd can run, if there is one.
const (
	labBinary = "CARD_TEST_LAB_BINARY"
	labGroup  = "CARD_TEST_LAB_CGROUP"
)

// A lab is a network with machines, in namespaces of its own: nothing of it is
// seen outside, and all of it ends with the test.
type lab struct {
	dir    string
	binary string
	group  string // empty: without systemd
}

// inLab runs the whole test again as the first process of a lab and reports what
// came of it. There it returns the lab, else nil. It skips the test where the
// system lets this user make no namespaces.
func inLab(t *testing.T) *lab {
	t.Helper()
	if binary := os.Getenv(labBinary); binary != "" {
		return newLab(t, binary, os.Getenv(labGroup))
	}
	group, done := controlGroup(t)
	defer done()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v=true")
	if deadline, ok := t.Deadline(); ok {
		cmd.Args = append(cmd.Args, "-test.timeout="+time.Until(deadline).String())
	}
	cmd.Env = append(os.Environ(), labBinary+"="+harness.Binary(t), labGroup+"="+group)
	ids := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	if hasUsers() { // the machines have the users of this one
		ids = func(int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{Size: users}} }
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  namespaces | syscall.CLONE_NEWUSER,
		UidMappings: ids(os.Getuid()), GidMappings: ids(os.Getgid()),
		GidMappingsEnableSetgroups: hasUsers(),
		Pdeathsig:                  syscall.SIGKILL,
	}
	runtime.LockOSThread() // the signal is sent when the thread ends
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSPC), strings.Contains(text, "--- SKIP: "+t.Name()):
		t.Skipf("NOT TESTED: namespaces are not to be had here: %v\n%s", err, text)
	case err != nil || !strings.Contains(text, "--- PASS: "+t.Name()):
		t.Errorf("%v\n%s", err, text)
	default:
		t.Log(text)
	}
	return nil
}

const users = 1 << 16

// hasUsers reports whether this process may act as all users of the machine.
func hasUsers() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	var inside, outside, size int
	if _, scanErr := fmt.Sscan(string(text), &inside, &outside, &size); err != nil || scanErr != nil {
		return false
	}
	return os.Getuid() == 0 && inside == 0 && size >= users
}

const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// controlGroup makes a control group under which systemd can run, and returns a
// function that removes it. The path is empty where there is none to be had.
func controlGroup(t *testing.T) (path string, done func()) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\S+ \S+ \S+ / (\S+) .* - cgroup2 `).FindSubmatch(mounts)
	if found == nil || !hasUsers() {
		return "", func() {}
	}
	path, err = os.MkdirTemp(string(found[1]), "card-gateway-test-")
	if err != nil {
		return "", func() {}
	}
	return path, func() {
		harness.Eventually(t, path+" is empty", func() bool {
			var groups []string
			_ = filepath.WalkDir(path, func(path string, entry os.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					groups = append(groups, path)
				}
				return nil
			})
			for i := len(groups) - 1; i >= 0; i-- { // those inside first
				_ = os.Remove(groups[i])
			}
			_, err := os.Stat(path)
			return os.IsNotExist(err)
		})
	}
}

// newLab sets up the network of the lab that this process is in. This process has
// its addresses of a client and of the issuer.
func newLab(t *testing.T, binary, group string) *lab {
	t.Helper()
	l := &lab{dir: t.TempDir(), binary: binary, group: group}
	if err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("proc", "/proc", "proc", 0, ""),
	); err != nil {
		t.Skipf("mounting /proc: %v", err)
	}
	command(t, "ip", "link", "set", "lo", "up")
	command(t, "ip", "link", "add", "lab", "type", "bridge")
	command(t, "ip", "link", "set", "lab", "up")
	command(t, "ip", "address", "add", client+"/24", "dev", "lab")
	command(t, "ip", "address", "add", issuer+"/24", "dev", "lab")
	return l
}

// The addresses of this process in the lab.
const (
	client = "10.0.0.1"
	issuer = "10.0.0.7"
)

// command runs a program that is expected to succeed.
func command(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
}

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
		t.Log("NOT TESTED: there is no control group for systemd (that takes root and cgroup2), so nothing runs under it")
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
