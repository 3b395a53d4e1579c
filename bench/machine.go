package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// machine returns a description of the machine, in lines, without names of
// hosts or paths.
func (b *bench) machine(ctx context.Context) []string {
	lines := []string{
		fmt.Sprintf("measured %s; %d alternating rounds of %s", time.Now().UTC().Format("2006-01-02"), b.rounds, b.span),
		fmt.Sprintf("%d cores of %s, %s, Linux %s", runtime.NumCPU(), fieldOf("/proc/cpuinfo", `model name\s*: (.*)`),
			memory(), fieldOf("/proc/sys/kernel/osrelease", `^([0-9.]*[0-9])`)),
		fmt.Sprintf("card-gateway %s; built with %s", said(ctx, `card-gateway (\S+ \(\S+\), Caddy \S+)`, b.binary, "version"), runtime.Version()),
		fmt.Sprintf("nginx %s, HAProxy %s, Redis %s, wrk %s", said(ctx, `nginx/(\S+)`, "/usr/sbin/nginx", "-v"), said(ctx, `version (\S+)`, "/usr/sbin/haproxy", "-v"),
			said(ctx, `v=(\S+)`, "redis-server", "--version"), said(ctx, `wrk (\S+)`, "wrk", "--version")),
		fmt.Sprintf("load of the machine before: %s", fieldOf("/proc/loadavg", `^(\S+)`)),
	}
	if len(b.env) > 0 {
		lines = append(lines, "gateway and Caddy with "+strings.Join(b.env, " "))
	}
	return lines
}

const unknown = "unknown"

// fieldOf returns the match of the pattern in a file.
func fieldOf(path, pattern string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return unknown
	}
	return find(pattern, text)
}

// said returns the match of the pattern in the output of a program.
func said(ctx context.Context, pattern, program string, args ...string) string {
	out, _ := exec.CommandContext(ctx, program, args...).CombinedOutput() //nolint:gosec // our own arguments; wrk --version exits with 1
	return find(pattern, out)
}

func find(pattern string, in []byte) string {
	found := regexp.MustCompile(`(?m)` + pattern).FindSubmatch(in)
	if found == nil {
		return unknown
	}
	return strings.TrimSpace(string(found[1]))
}

func memory() string {
	var kib int64
	if _, err := fmt.Sscan(fieldOf("/proc/meminfo", `MemTotal:\s*(\d+)`), &kib); err != nil {
		return "memory " + unknown
	}
	return fmt.Sprintf("%d GiB", (kib+(1<<19))>>20)
}
