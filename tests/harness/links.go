package harness

import (
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// A Route is the way of bytes from one process to another, by their names. An
// empty name means every process.
type Route struct{ From, To string }

// A LinkFault is what a network does to the bytes of a route. The zero value is
// a network without faults.
type LinkFault struct {
	// Hold keeps the bytes until the fault is over, and then delivers them, like
	// a network that is cut in two and becomes whole again.
	Hold bool
	// Delay delivers every piece later by this time.
	Delay time.Duration
	// Change replaces the bytes of a piece. On the loopback network a short
	// reply is one piece.
	Change func([]byte) []byte
	// Cut delivers the first half of a piece and closes the connection.
	Cut bool
}

// Links is a network between processes of one machine. There is a proxy in front
// of each server, and it knows which process opened each connection. So a link
// can fail in one direction, and for one pair of processes, without any
// privilege.
type Links struct {
	t testing.TB

	mu      sync.Mutex
	pids    map[string]func() int
	faults  map[Route]LinkFault
	changed chan struct{} // closed when faults change
	conns   map[*linked]bool
	closed  bool
	tasks   sync.WaitGroup

	openers sync.Mutex
	sockets map[uint32]string // by inode: which process has it; guarded by openers
}

// linked is a connection through the network.
type linked struct {
	client, server net.Conn
	from, to       string
	forgotten      bool
}

func (c *linked) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

// NewLinks returns a network that ends with the test.
func NewLinks(t testing.TB) *Links {
	l := &Links{t: t, pids: make(map[string]func() int), faults: make(map[Route]LinkFault), changed: make(chan struct{}), conns: make(map[*linked]bool)}
	t.Cleanup(func() {
		l.Heal()
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.Sever(Route{})
		l.tasks.Wait()
	})
	return l
}

// Name gives the connections of a process a name. The function pid returns the
// id of the process, or 0 while it does not run.
func (l *Links) Name(name string, pid func() int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pids[name] = pid
}

// Listen returns an address of the network that leads to the named server. The
// server itself listens on the address server.
func (l *Links) Listen(name, server string) (addr string) {
	l.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = listener.Close() })
	l.tasks.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			l.tasks.Go(func() { l.carry(client, name, server) })
		}
	})
	return listener.Addr().String()
}

// Set applies a fault to the bytes of the routes.
func (l *Links) Set(f LinkFault, routes ...Route) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range routes {
		l.faults[r] = f
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Split cuts the network between two halves, in both directions.
func (l *Links) Split(here, there []string) {
	var routes []Route
	for _, a := range here {
		for _, b := range there {
			routes = append(routes, Route{a, b}, Route{b, a})
		}
	}
	l.Set(LinkFault{Hold: true}, routes...)
}

// Heal ends all faults. Forgotten connections stay forgotten.
func (l *Links) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.faults)
	close(l.changed)
	l.changed = make(chan struct{})
}

// Sever closes the connections that were opened along a route.
func (l *Links) Sever(r Route) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if r.covers(c.from, c.to) {
			c.close()
		}
	}
}

// Drain closes the connections that were opened along a route. It waits until
// no bytes are on their way on them.
func (l *Links) Drain(r Route) {
	l.t.Helper()
	l.Sever(r)
	l.mu.Lock()
	var gone []*linked
	for c := range l.conns {
		if r.covers(c.from, c.to) {
			gone = append(gone, c)
		}
	}
	l.mu.Unlock()
	Eventually(l.t, "the connections have ended", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !slices.ContainsFunc(gone, func(c *linked) bool { return l.conns[c] })
	})
}

// Forget loses all bytes on the connections that were opened along a route,
// like a network that has forgotten them. New connections work.
func (l *Links) Forget(r Route) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if r.covers(c.from, c.to) {
			c.forgotten = true
		}
	}
}

func (r Route) covers(from, to string) bool {
	return (r.From == "" || r.From == from) && (r.To == "" || r.To == to)
}
