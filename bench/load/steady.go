package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds how long no request is answered.
const patience = 10 * time.Second

// A Steady run sends requests at a constant rate. Each has the time at which it
// is due, whether or not those before it were answered, and its latency is
// measured from that time: a server that stands still is charged for all that
// came due meanwhile, which a tool that waits for answers leaves out.
type Steady struct {
	Run
	Rate int // requests per second
}

// A steadyRun is a run on one thread, in a loop over epoll: a timer of the kernel
// says how many requests are due, and requests go to the connections that are
// free, in the order in which they became free.
type steadyRun struct {
	heads, body []byte
	length      int // of a head
	interval    time.Duration
	begun       time.Time
	due, sent   int // requests
	free        []int
	conns       map[int]*steadyConn // by file descriptor
	latencies   []time.Duration
	refused     int
	request     []byte
}

// A steadyConn is a connection that is kept.
type steadyConn struct {
	due    time.Time // of the request that waits for its answer
	answer []byte
}

// Do runs for the duration. It returns ErrExhausted, wrapped, if the pool was too
// small, and an error if a connection ended or a request got no answer.
func (r *Steady) Do(ctx context.Context) (result Result, err error) {
	heads, err := os.ReadFile(r.Pool.heads)
	if err != nil {
		return result, err
	}
	body, err := os.ReadFile(r.Pool.body)
	if err != nil {
		return result, err
	}
	count := int(r.Duration.Seconds() * float64(r.Rate))
	if count*r.Pool.length > len(heads) {
		return result, ErrExhausted
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadCPU()
	run := &steadyRun{
		heads: heads, body: body, length: r.Pool.length, interval: time.Second / time.Duration(r.Rate),
		conns: make(map[int]*steadyConn), latencies: make([]time.Duration, 0, count),
	}
	defer run.close()
	if err := run.do(ctx, r.Addr, r.Connections, count); err != nil {
		return result, fmt.Errorf("%d requests a second: %w", r.Rate, err)
	}
	span := time.Since(run.begun)
	slices.Sort(run.latencies)
	at := func(part float64) time.Duration { return run.latencies[int(part*float64(count-1))] }
	return Result{
		Requests: count, Refused: run.refused, Span: span, P50: at(0.5), P99: at(0.99), P999: at(0.999), CPU: threadCPU() - before,
	}, nil
}

// threadCPU returns what this thread has used so far.
func threadCPU() time.Duration {
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &used) // fails for a wrong pointer only
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// do opens the connections, starts the timer and runs the loop.
func (s *steadyRun) do(ctx context.Context, addr string, connections, count int) error {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(poll)
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(timer)
	if err := s.connect(addr, connections); err != nil {
		return err
	}
	for _, fd := range append(slices.Clone(s.free), timer) {
		if err := unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return err
		}
	}
	every := unix.NsecToTimespec(int64(s.interval))
	s.begun = time.Now()
	if err := unix.TimerfdSettime(timer, 0, &unix.ItimerSpec{Interval: every, Value: every}, nil); err != nil {
		return err
	}
	return s.loop(ctx, poll, timer, count)
}

// loop sends and reads until the count of requests is answered.
func (s *steadyRun) loop(ctx context.Context, poll, timer, count int) error {
	events := make([]unix.EpollEvent, len(s.conns)+1)
	for answered := s.begun; len(s.latencies) < count; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		ready, err := unix.EpollWait(poll, events, 1000)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, e := range events[:max(ready, 0)] {
			fd := int(e.Fd)
			if fd == timer {
				s.due = min(s.due+expired(timer), count)
				continue
			}
			if err := s.read(fd); err != nil {
				return err
			}
			answered = time.Now()
		}
		if time.Since(answered) > patience {
			return fmt.Errorf("no answer for %s; %d of %d requests are answered", patience, len(s.latencies), count)
		}
		if err := s.send(); err != nil {
			return err
		}
	}
	return nil
}

// expired returns how often the timer has expired since it was read.
func expired(timer int) int {
	var count [8]byte
	if n, err := unix.Read(timer, count[:]); err != nil || n != len(count) {
		return 0
	}
	return int(binary.NativeEndian.Uint64(count[:]))
}

// connect opens the connections.
func (s *steadyRun) connect(addr string, connections int) error {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	for range connections {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		s.conns[fd] = new(steadyConn)
		s.free = append(s.free, fd)
		err = errors.Join(
			unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}),
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
			unix.SetNonblock(fd, true),
		)
		if err != nil {
			return fmt.Errorf("connecting to %s: %w", addr, err)
		}
	}
	return nil
}

func (s *steadyRun) close() {
	for fd := range s.conns {
		_ = unix.Close(fd)
	}
}

// send sends what is due while a connection is free.
func (s *steadyRun) send() error {
	for s.sent < s.due && len(s.free) > 0 {
		fd := s.free[0]
		s.free = append(s.free[:0], s.free[1:]...)
		at := s.sent * s.length
		s.request = append(append(s.request[:0], s.heads[at:at+s.length]...), s.body...)
		if n, err := unix.Write(fd, s.request); err != nil || n != len(s.request) {
			return fmt.Errorf("sending a request: %d of %d bytes, %w", n, len(s.request), err)
		}
		s.sent++
		s.conns[fd].due = s.begun.Add(time.Duration(s.sent) * s.interval)
	}
	return nil
}

// read reads what has arrived on a connection, and frees it when the answer is
// complete.
func (s *steadyRun) read(fd int) error {
	var arrived [8 << 10]byte
	n, err := unix.Read(fd, arrived[:])
	if err != nil || n == 0 {
		return fmt.Errorf("a connection ended, %w", err)
	}
	c := s.conns[fd]
	c.answer = append(c.answer, arrived[:n]...)
	refused, complete, err := answered(c.answer)
	if err != nil || !complete {
		return err
	}
	if refused {
		s.refused++
	}
	s.latencies = append(s.latencies, time.Since(c.due))
	c.answer = c.answer[:0]
	s.free = append(s.free, fd)
	return nil
}

// answered reports whether the bytes are a complete answer, and whether its
// status is 400 or more. It returns an error for an answer without a length.
func answered(answer []byte) (refused, complete bool, err error) {
	head, body, found := bytes.Cut(answer, []byte("\r\n\r\n"))
	if !found {
		return false, false, nil
	}
	_, rest, _ := bytes.Cut(bytes.ToLower(head), []byte("\r\ncontent-length:"))
	value, _, _ := bytes.Cut(rest, []byte("\r\n"))
	length, err := strconv.Atoi(string(bytes.TrimSpace(value)))
	if err != nil || len(head) < len("HTTP/1.1 200") {
		return false, false, fmt.Errorf("an answer has no status or no length: %s", head)
	}
	return head[len("HTTP/1.1 ")] >= '4', len(body) >= length, nil
}
