package load

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

//go:embed wrk.lua
var script []byte

// ErrExhausted means that a run would have had to send a request twice: its
// pool was too small.
var ErrExhausted = errors.New("the pool of signed requests is exhausted")

// A Run is one run of wrk.
type Run struct {
	Addr        string // host:port
	Connections int
	Duration    time.Duration // whole seconds
	Pool        *Pool
	Again       bool // whether requests may be sent more than once
}

// A Result is what was counted in one run.
type Result struct {
	Requests int
	Refused  int           // answers with a status of 400 or more
	Span     time.Duration // from the first request to the last
	// Latencies, of wrk from the moment of sending.
	P50, P99, P999 time.Duration
	CPU            time.Duration // of the load tool, the loading of the pool included
}

// Do runs wrk until its time is over. It returns ErrExhausted, wrapped, if
// the pool was too small, and an error if a connection broke or a request got
// no answer.
func (r *Run) Do(ctx context.Context) (Result, error) {
	path := filepath.Join(filepath.Dir(r.Pool.heads), "wrk.lua")
	if err := os.WriteFile(path, script, 0o600); err != nil {
		return Result{}, err
	}
	again := "once"
	if r.Again {
		again = "again"
	}
	cmd := exec.CommandContext(ctx, "wrk", "--threads", "1", "--connections", strconv.Itoa(r.Connections), //nolint:gosec // our own arguments
		"--duration", fmt.Sprintf("%ds", int(r.Duration.Seconds())), "--timeout", "10s", "--script", path, "http://"+r.Addr, "--",
		r.Pool.heads, strconv.Itoa(r.Pool.length), r.Pool.body, again)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Result{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	result, err := parse(out)
	result.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return result, err
}

// parse reads the line that wrk.lua has written.
func parse(out []byte) (Result, error) {
	var counted struct {
		Requests, Micros, P50, P99, P999 int64
		Refused, Broken, Exhausted       int64
	}
	_, line, found := bytes.Cut(out, []byte("\nbench "))
	if !found {
		return Result{}, fmt.Errorf("wrk says no figures:\n%s", out)
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if err := json.Unmarshal(line, &counted); err != nil {
		return Result{}, fmt.Errorf("reading %s: %w", line, err)
	}
	switch {
	case counted.Exhausted != 0:
		return Result{}, ErrExhausted
	case counted.Broken != 0:
		return Result{}, fmt.Errorf("%d of %d requests got no answer:\n%s", counted.Broken, counted.Requests, out)
	case counted.Requests == 0:
		return Result{}, fmt.Errorf("no request was answered:\n%s", out)
	}
	return Result{
		Requests: int(counted.Requests), Refused: int(counted.Refused),
		Span: time.Duration(counted.Micros) * time.Microsecond,
		P50:  time.Duration(counted.P50) * time.Microsecond,
		P99:  time.Duration(counted.P99) * time.Microsecond,
		P999: time.Duration(counted.P999) * time.Microsecond,
	}, nil
}
