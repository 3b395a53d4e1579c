package logqueue

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/logging"
	"pgregory.net/rapid"
)

func init() {
	served.Store(true)
	patience = time.Second
}

// Before the first start a line is written when Write returns, because the process
// may end at once; while the output hangs, Write still returns.
func TestFirstLinesAreWritten(t *testing.T) {
	served.Store(false)
	t.Cleanup(func() { served.Store(true) })
	out := new(gated)
	q := newQueue(out, limits{bytes: 1000, lines: 100})
	write(t, q, "why it does not start\n")
	out.mu.Lock()
	if got := out.text.String(); got != "why it does not start\n" {
		t.Errorf("%q is written", got)
	}
	write(t, q, "nobody reads this\n")
	out.mu.Unlock()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
}

// No line opens a file before a configuration is started. Then all lines are in it.
func TestFileIsOpenedLate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "gateway.log")
	opened := make(chan struct{})
	q := &queue{out: &lateFile{opener: &logging.FileWriter{Filename: path}}, opened: opened}
	q.begin(limits{bytes: 1000, lines: 10})
	write(t, q, "one\n")
	if q.flush(t.Context()) {
		t.Error("a queue whose file must not be opened says that it is empty")
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the log: %v", err)
	}
	close(opened)
	write(t, q, "two\n")
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); string(text) != "one\ntwo\n" {
		t.Errorf("the file has %q (%v)", text, err)
	}
}

// A configuration that was never started is closed at once, and leaves no file.
func TestCloseWithoutAStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.log")
	q := &queue{out: &lateFile{opener: &logging.FileWriter{Filename: path}}, opened: make(chan struct{})}
	q.begin(limits{bytes: 1000, lines: 10})
	write(t, q, "one\n")
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log: %v", err)
	}
}

// gated is an output that takes nothing while it is held.
type gated struct {
	mu     sync.Mutex // held: nobody reads
	text   bytes.Buffer
	closed bool
	fail   error
}

func (g *gated) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fail != nil {
		return 0, g.fail
	}
	return g.text.Write(p)
}

func (g *gated) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	return nil
}

func write(t testing.TB, q *queue, line string) {
	t.Helper()
	if n, err := q.Write([]byte(line)); n != len(line) || err != nil {
		t.Fatalf("Write returned %d, %v: zap would write that to standard error", n, err)
	}
}

// While the output hangs, Write still returns: the first lines wait, the others
// are dropped and counted, lines of the audit log also on their own.
func TestNobodyReads(t *testing.T) {
	out := new(gated)
	out.mu.Lock()
	q := newQueue(out, limits{bytes: 1000, lines: 100})
	drops, lost := Dropped(), AuditLost()
	for range 300 {
		write(t, q, "0123456789\n")
	}
	audit := `{"run":"` + Run + `"}` + "\n"
	write(t, q, strings.Repeat(" ", 1000)+audit)
	kept := 300 - int(Dropped()-drops-1)
	if kept < 90 || kept > 92 {
		t.Errorf("a queue of 1000 bytes kept %d lines of 11", kept)
	}
	if got := AuditLost() - lost; got != 1 || !Trouble() {
		t.Errorf("%d audit lines were counted as lost, want 1; trouble %v", got, Trouble())
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if q.flush(gone) {
		t.Error("a queue that nobody empties says that it is empty")
	}
	out.mu.Unlock()
	if !q.flush(t.Context()) {
		t.Error("the queue is not emptied")
	}
	write(t, q, "after\n")
	if err := q.Close(); err != nil || !out.closed {
		t.Errorf("closing: %v, closed %v", err, out.closed)
	}
	if got := out.text.String(); got != strings.Repeat("0123456789\n", kept)+"after\n" {
		t.Errorf("the output received %q", got)
	}
}

// A line that the output refuses is lost, and the next line is still written.
func TestOutputFails(t *testing.T) {
	out := &gated{fail: errors.New("no space left")}
	q := newQueue(out, limits{bytes: 1000, lines: 100})
	drops, lost := Dropped(), AuditLost()
	write(t, q, "one\n")
	write(t, q, Run)
	q.flush(t.Context())
	if got, audit := Dropped()-drops, AuditLost()-lost; got != 2 || audit != 1 {
		t.Errorf("%d lines were counted as dropped, %d of the audit log, want 2 and 1", got, audit)
	}
	out.mu.Lock()
	out.fail = nil
	out.mu.Unlock()
	write(t, q, "two\n")
	_ = q.Close()
	write(t, q, "late\n")
	if got := out.text.String(); got != "two\nlate\n" {
		t.Errorf("the output received %q, want what came after, and what was written late", got)
	}
}

// Closing a log whose output hangs takes a limited time, and no Write waits for
// it.
func TestCloseWhileStuck(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	q := newQueue(w, limits{bytes: 1 << 20, lines: 1000})
	line := strings.Repeat("x", 10_000) + "\n"
	for range 50 {
		write(t, q, line)
	}
	for q.writing.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if !q.stuck(0) || q.stuck(time.Hour) {
		t.Error("the queue does not see that a write is under way")
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	write(t, q, line)
	<-q.done // the pipe was closed, so the write has ended
}

// Lines that many goroutines write while the log is closed arrive whole and at
// most once, and lines that do not arrive are counted.
func TestLinesArriveOrAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits{bytes: rapid.Int64Range(1, 2000).Draw(t, "bytes"), lines: rapid.IntRange(0, 50).Draw(t, "lines")}
		writers, each := rapid.IntRange(1, 8).Draw(t, "writers"), rapid.IntRange(0, 40).Draw(t, "each")
		out := new(gated)
		q := newQueue(out, l)
		before := Dropped()
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for k := range each {
					line := []byte{byte('a' + i), byte('A' + k), '\n'}
					_, _ = q.Write(line)
					line[0] = '!' // zap uses its buffer again
				}
			})
		}
		if rapid.Bool().Draw(t, "early") {
			_ = q.Close()
		}
		all.Wait()
		_ = q.Close()
		q.late <- struct{}{} // a late line has been written
		seen := make(map[string]bool)
		for line := range strings.Lines(out.text.String()) {
			if len(line) != 3 || line[0] == '!' || seen[line] {
				t.Fatalf("the line %q is broken or came twice", line)
			}
			seen[line] = true
		}
		if lost := int(Dropped() - before); len(seen)+lost != writers*each {
			t.Fatalf("%d lines arrived and %d were counted, of %d", len(seen), lost, writers*each)
		}
	})
}
