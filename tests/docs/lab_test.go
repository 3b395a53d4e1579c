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
	cmd.Env = append(os.Environ(), labBinary+"="+harness.Binary(t), labGroup+"="+group, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
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
	for _, unit := range []string{"redis-server", "haproxy"} { // the packages of Debian have them
		if _, err := os.Stat("/lib/systemd/system/" + unit + ".service"); err != nil {
			return "", func() {}
		}
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
