package logqueue

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// patience is how long a line may wait for an output: at the end, and before the
// first start. The write of an output that hangs takes longer. Tests shorten it.
var patience = 5 * time.Second

const (
	// flushPause is how long a flush waits for room in a full queue.
	flushPause = 5 * time.Millisecond
	// lateWait is how long Write waits for a line that arrives after Close.
	lateWait = 100 * time.Millisecond
)

// limits of a queue.
type limits struct {
	bytes int64
	lines int
}

// item is a line, or a request to report that all lines before were handled.
type item struct {
	line    []byte
	reached chan<- struct{}
}

// queue writes lines in the background. Write does not wait, except before the
// first start, at the end of the process and after Close, for a limited time.
type queue struct {
	out    io.WriteCloser
	opened <-chan struct{} // no line is written before it is closed
	copies bool            // lines before the first start go to standard error too
	most   int64           // bytes
	items  chan item       // closed at the end
	done   chan struct{}   // closed when the last line was handled
	late   chan struct{}   // holds an element while a late line is written

	held    atomic.Int64 // bytes in the queue
	writing atomic.Int64 // when the current write began, by uptime; 0: none

	mu     sync.RWMutex // guards items against being closed during a send
	closed bool
}

// newQueue returns a queue in front of an output that can be written at once.
func newQueue(out io.WriteCloser, l limits) *queue {
	opened := make(chan struct{})
	close(opened)
	q := &queue{out: out, opened: opened}
	q.begin(l)
	return q
}

// begin starts the writing.
func (q *queue) begin(l limits) {
	q.most, q.items = l.bytes, make(chan item, l.lines)
	q.done, q.late = make(chan struct{}), make(chan struct{}, 1)
	all.add(q)
	go q.run()
}

// Write takes a line, or drops it when the queue is full. It returns no error in
// either case: zap would write an error to standard error, which may be the pipe
// that nobody reads.
//
// Before the first start and at the end of the process it waits until all queues
// are empty, unless an output hangs: this may be the last line, and say why.
func (q *queue) Write(line []byte) (int, error) {
	first := starting()
	if first || ending() {
		defer flushAll(context.Background())
	}
	if first && q.copies {
		terminal().put(line)
	}
	q.put(line)
	return len(line), nil
}

// put takes a line or drops it.
func (q *queue) put(line []byte) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	switch {
	case q.closed:
		q.writeLate(line)
	case !q.take(line):
		lose(line)
	}
}

// take puts a copy of the line into the queue unless that is full.
func (q *queue) take(line []byte) bool {
	size := int64(len(line))
	if q.held.Add(size) <= q.most {
		select {
		case q.items <- item{line: bytes.Clone(line)}:
			return true
		default:
		}
	}
	q.held.Add(-size)
	return false
}

// run writes the lines of the queue until the queue is closed and empty.
func (q *queue) run() {
	defer close(q.done)
	<-q.opened
	for i := range q.items {
		if i.reached != nil {
			close(i.reached)
			continue
		}
		q.writing.Store(uptime())
		_, err := q.out.Write(i.line)
		q.writing.Store(0)
		q.held.Add(-int64(len(i.line)))
		if err != nil {
			lose(i.line)
		}
	}
}

// flush waits until all lines that are in the queue now were handled. It
// reports whether they were when the context ended. It does not wait for a queue
// whose output must not be opened yet.
func (q *queue) flush(ctx context.Context) bool {
	if !q.isOpen() {
		return false
	}
	reached := make(chan struct{})
	for !q.request(reached) {
		select {
		case <-time.After(flushPause):
		case <-ctx.Done():
			return false
		}
	}
	select {
	case <-reached:
		return true
	case <-ctx.Done():
		return false
	}
}

// request puts a request into the queue if there is room. It must not wait: while
// it holds the lock, Close waits, and then each Write waits.
func (q *queue) request(reached chan struct{}) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.closed {
		close(reached)
		return true
	}
	select {
	case q.items <- item{reached: reached}:
		return true
	default:
		return false
	}
}

// stuck reports whether the current write takes longer than the time.
func (q *queue) stuck(after time.Duration) bool {
	began := q.writing.Load()
	return began != 0 && uptime()-began > int64(after)
}

// isOpen reports whether lines may be written.
func (q *queue) isOpen() bool {
	select {
	case <-q.opened:
		return true
	default:
		return false
	}
}

// Close writes the lines in the queue, for at most patience, and closes the
// output. It does not wait for one that was not opened.
func (q *queue) Close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	close(q.items)
	q.mu.Unlock()
	all.remove(q)
	if !q.isOpen() {
		return nil
	}
	select {
	case <-q.done:
		return q.out.Close()
	case <-time.After(patience):
		go func() { _ = q.out.Close() }() // may wait for the current write
		return nil
	}
}

// writeLate writes a line that arrives after Close, such as the last lines of a
// process, or of a request that outlives its configuration. While one hangs, the
// next ones are dropped.
func (q *queue) writeLate(line []byte) {
	select {
	case q.late <- struct{}{}:
	default:
		lose(line)
		return
	}
	written := make(chan struct{})
	line = bytes.Clone(line)
	go func() {
		<-q.done
		if _, err := q.out.Write(line); err != nil {
			lose(line)
		}
		<-q.late
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(lateWait):
	}
}

type openQueues struct {
	mu  sync.Mutex
	set map[*queue]struct{}
}

// all holds the queues that are open.
var all = openQueues{set: make(map[*queue]struct{})}

func (o *openQueues) add(q *queue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.set[q] = struct{}{}
}

func (o *openQueues) remove(q *queue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.set, q)
}

func (o *openQueues) list() []*queue {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := make([]*queue, 0, len(o.set))
	for q := range o.set {
		list = append(list, q)
	}
	return list
}

// What this process is doing decides where a line goes, and whether Write waits:
//
//   - It checks or starts its first configuration. A line is written at once, also to
//     standard error, because the process may end with it. Files are opened only if
//     the configuration is being started.
//   - It serves. No Write waits.
//   - It ends. A line is written at once.

var (
	served   atomic.Bool               // a configuration was started
	openOnce sync.Once                 // closes opened
	opened   = make(chan struct{})     // closed: files may be opened
	quit     = make(chan os.Signal, 1) // Caddy ends the process at once; never read
)

// Open lets the queues open their files: a configuration is being started, and not
// only checked.
func Open() {
	openOnce.Do(func() {
		close(opened)
		caddy.OnExit(flushAll)
		signal.Notify(quit, syscall.SIGQUIT)
	})
}

// starting reports whether no configuration was started yet.
func starting() bool {
	if served.Load() {
		return false
	}
	if caddy.ActiveContext().Context == nil {
		return true
	}
	served.Store(true)
	Open()
	return false
}

// ending reports whether the process ends.
func ending() bool { return caddy.Exiting() || len(quit) > 0 }

// flushAll flushes for at most patience.
func flushAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	Flush(ctx)
}

// terminal returns the queue of copies on standard error.
var terminal = sync.OnceValue(func() *queue {
	out, _ := caddy.StderrWriter{}.OpenWriter() // never fails
	return newQueue(out, limits{bytes: 1 << 20, lines: 1 << 10})
})

const recentDrops = time.Minute

// Trouble reports whether an output hangs now, or lines were lost during the
// last minute.
func Trouble() bool {
	if last := lastDrop.Load(); last != 0 && uptime()-last < int64(recentDrops) {
		return true
	}
	for _, q := range all.list() {
		if q.stuck(patience) {
			return true
		}
	}
	return false
}

// Flush waits until all lines that are in queues now were written or lost, or
// the context ends. It does not wait for an output that hangs.
func Flush(ctx context.Context) {
	var queues sync.WaitGroup
	for _, q := range all.list() {
		if !q.stuck(patience) {
			queues.Go(func() { q.flush(ctx) })
		}
	}
	queues.Wait()
}

// Run identifies this run of the process. Every line of the audit log contains
// it, so that a queue recognises such a line when it loses it.
var Run = rand.Text()

var (
	run       = []byte(Run)
	start     = time.Now()
	dropped   atomic.Uint64
	lastDrop  atomic.Int64 // by uptime
	auditLost atomic.Uint64
)

// uptime returns the nanoseconds since the start, never 0.
func uptime() int64 { return max(1, int64(time.Since(start))) }

func lose(line []byte) {
	dropped.Add(1)
	lastDrop.Store(uptime())
	if bytes.Contains(line, run) {
		auditLost.Add(1)
	}
}

// Dropped returns how many lines of all logs were lost since the start of the
// process: there was no room for them, or their output refused them.
func Dropped() uint64 { return dropped.Load() }

// AuditLost returns how many of those contained Run: lines of the audit log.
func AuditLost() uint64 { return auditLost.Load() }
