package harness

import (
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Limit sets the soft limit of a resource of the running process (see
// getrlimit(2)). The returned function restores the old limit.
func (g *Gateway) Limit(resource int, soft uint64) (restore func()) {
	g.T.Helper()
	pid := g.cmd.Process.Pid
	var old unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &old); err != nil {
		g.T.Fatal(err)
	}
	if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(soft, old.Max), Max: old.Max}, nil); err != nil {
		g.T.Fatal(err)
	}
	return func() { _ = unix.Prlimit(pid, resource, &old, nil) }
}

// OpenFiles returns how many files the process has open.
func (g *Gateway) OpenFiles() int {
	g.T.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid))
	if err != nil {
		g.T.Fatal(err)
	}
	return len(all)
}

// AddressSpace returns the bytes of address space that the process has mapped.
func (g *Gateway) AddressSpace() uint64 {
	g.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", g.cmd.Process.Pid))
	if err != nil {
		g.T.Fatal(err)
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		g.T.Fatal(err)
	}
	return pages * uint64(os.Getpagesize())
}

// OwnDisks returns why the system does not allow DiskOfItsOwn, or nil.
func OwnDisks() error {
	if out, err := exec.Command("unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", "/mnt").CombinedOutput(); err != nil {
		return fmt.Errorf("no disk of its own for a process: %w: %s", err, out)
	}
	return nil
}

// DiskOfItsOwn gives the gateway a disk of size bytes at a directory, from its
// next start on. No other process sees the disk, and it ends with the process.
// The test is skipped if the system does not allow users a mount namespace.
func (g *Gateway) DiskOfItsOwn(dir string, size int) {
	g.T.Helper()
	if err := OwnDisks(); err != nil {
		g.T.Skip(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		g.T.Fatal(err)
	}
	mount := fmt.Sprintf(`mount -t tmpfs -o size=%d,mode=0700 tmpfs "$0" && exec "$@"`, size)
	g.around = []string{"unshare", "-Urm", "sh", "-c", mount, dir}
}

// FillDisk fills the disk of a directory as the process sees it, or what was freed
// since the last call. The returned function frees the space.
func (g *Gateway) FillDisk(dir string) (free func()) {
	g.T.Helper()
	name := fmt.Sprintf("/proc/%d/root%s/filler", g.cmd.Process.Pid, dir)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		g.T.Fatal(err)
	}
	defer f.Close()
	piece := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(piece)
	}
	return func() { _ = os.Remove(name) }
}
