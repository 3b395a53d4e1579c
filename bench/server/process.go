// Package server starts the servers that are compared: the gateway, plain
// Caddy, HAProxy, nginx with and without checks written by hand, Redis, and the
// issuer behind them all. Every process listens on a free port of the loopback
// interface, has a directory of its own and is ended by its id.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience bounds how long a process may take to start or to end.
const patience = 30 * time.Second

// A process is a program that runs in a directory of its own.
type process struct {
	name string
	dir  string
	addr string // host:port that it serves on
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// newProcess makes the directory below parent and takes a free port.
func newProcess(ctx context.Context, parent, name string) (*process, error) {
	dir, err := os.MkdirTemp(parent, name+"-")
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	return &process{name: name, dir: dir, addr: listener.Addr().String()}, nil
}

func (p *process) path(name string) string { return filepath.Join(p.dir, name) }

func (p *process) port() string {
	_, port, _ := net.SplitHostPort(p.addr)
	return port
}

// start runs the program and waits until it accepts connections.
func (p *process) start(ctx context.Context, env []string, program string, args ...string) error {
	out, err := os.Create(p.path("out"))
	if err != nil {
		return err
	}
	defer out.Close()
	p.cmd = exec.Command(program, args...) //nolint:gosec,noctx // our own arguments; Close ends it
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, out, out
	p.cmd.Env = p.env(env)
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	p.done = make(chan struct{})
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p.await(ctx, func() bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", p.addr)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
}

// env is the environment of the program, with further variables. A gateway and the command
// that fills its store note in one directory how far the journal is.
func (p *process) env(more []string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "XDG_CONFIG_HOME=" + p.dir, "XDG_DATA_HOME=" + p.dir, "XDG_RUNTIME_DIR=" + p.dir}, more...)
}

// runOnce runs another program in the directory until it ends.
func (p *process) runOnce(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // our own arguments
	cmd.Dir, cmd.Env = p.dir, p.env(nil)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %s: %w\n%s", p.name, filepath.Base(program), err, out)
	}
	return nil
}

// await waits until the process is ready.
func (p *process) await(ctx context.Context, ready func() bool) error {
	deadline := time.After(patience)
	for !ready() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return p.failed("ends at once")
		case <-deadline:
			return p.failed("does not become ready")
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

func (p *process) failed(how string) error {
	said, _ := os.ReadFile(p.path("out"))
	errorLog, _ := os.ReadFile(p.path("error.log"))
	return fmt.Errorf("%s %s:\n%s%s", p.name, how, said, errorLog)
}

// end ends the process; its directory stays.
func (p *process) end() error {
	if p.cmd == nil || p.cmd.Process == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		err := errors.Join(p.failed("does not end"), p.cmd.Process.Kill())
		<-p.done
		return err
	}
}

// Close ends the process and removes its directory.
func (p *process) Close() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.end(), os.RemoveAll(p.dir))
}

// usage is the CPU and memory that a process and its children have used so far.
type usage struct {
	cpu      time.Duration
	resident int64 // bytes
}

// usage returns the usage of the process and its children, from /proc.
func (p *process) usage() (usage, error) {
	pids := []int{p.cmd.Process.Pid}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pids[0]))
	if err != nil {
		return usage{}, fmt.Errorf("the children of %s: %w", p.name, err)
	}
	for child := range strings.FieldsSeq(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			pids = append(pids, pid)
		}
	}
	var sum usage
	for _, pid := range pids {
		u, err := usageOf(pid)
		if err != nil {
			return usage{}, fmt.Errorf("what %s uses: %w", p.name, err)
		}
		sum.cpu += u.cpu
		sum.resident += u.resident
	}
	return sum, nil
}

// usageOf reads the times and the resident pages of one process: see proc(5).
func usageOf(pid int) (usage, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere that Go runs
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest) // starting with the third field
	if len(fields) < 22 {
		return usage{}, fmt.Errorf("/proc/%d/stat has too few fields", pid)
	}
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(fields[field-3], 10, 64)
		return n
	}
	return usage{
		cpu:      time.Duration(number(14)+number(15)) * tick,
		resident: number(24) * int64(os.Getpagesize()),
	}, nil
}
