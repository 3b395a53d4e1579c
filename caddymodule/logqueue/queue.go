package logqueue

import (
	"bytes"
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// closeWait is how long Close waits for the lines in the queue.
	closeWait = 2 * time.Second
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

// queue writes lines in the background. Write does not wait, except after Close,
// for at most lateWait.
type queue struct {
	out   io.WriteCloser
	most  int64         // bytes
	items chan item     // closed at the end
	done  chan struct{} // closed when the last line was handled
	late  chan struct{} // holds an element while a late line is written

	held    atomic.Int64 // bytes in the queue
	writing atomic.Int64 // when the current write began, by uptime; 0: none

	mu     sync.RWMutex // guards items against being closed during a send
	closed bool
}

func newQueue(out io.WriteCloser, l limits) *queue {
	q := &queue{out: out, most: l.bytes, items: make(chan item, l.lines), done: make(chan struct{}), late: make(chan struct{}, 1)}
	all.add(q)
	go q.run()
	return q
}

// serving is true from the first start of the gateway on.
var serving atomic.Bool

// Serve says that requests are served from now on, so that no Write may wait.
func Serve() { serving.Store(true) }

// Write takes a line, or drops it when the queue is full. It returns no error in
// either case: zap would write an error to standard error, which may be the pipe
// that nobody reads.
//
// Before the first start it waits until the line is written, for at most lateWait:
// a process that cannot start ends at once, and the line says why.
func (q *queue) Write(line []byte) (int, error) {
	if !serving.Load() {
		defer q.flushed(lateWait)
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	switch {
	case q.closed:
		q.writeLate(line)
	case !q.take(line):
		lose(line)
	}
	return len(line), nil
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
// reports whether they were when the context ended.
func (q *queue) flush(ctx context.Context) bool {
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

// flushed flushes for at most the time.
func (q *queue) flushed(most time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	q.flush(ctx)
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

// Close writes the lines in the queue, for at most closeWait, and closes the
// output.
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
	select {
	case <-q.done:
		return q.out.Close()
	case <-time.After(closeWait):
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
