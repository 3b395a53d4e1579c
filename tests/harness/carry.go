package harness

import (
	"net"
	"sync"
	"time"
)

// carry serves one connection to a server.
func (l *Links) carry(client net.Conn, name, addr string) {
	from, open := l.opener(client)
	var server net.Conn
	err := net.ErrClosed
	if open {
		server, err = net.Dial("tcp", addr)
	}
	if err != nil {
		_ = client.Close()
		return
	}
	c := &linked{client: client, server: server, from: from, to: name}
	l.mu.Lock()
	l.conns[c] = true
	closed := l.closed
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.conns, c)
		l.mu.Unlock()
	}()
	if closed {
		c.close()
		return
	}
	var back sync.WaitGroup
	back.Go(func() { l.pump(c, server, client, Route{name, c.from}) })
	l.pump(c, client, server, Route{c.from, name})
	back.Wait()
}

// pump carries the bytes of one direction until the connection ends.
func (l *Links) pump(c *linked, from, to net.Conn, r Route) {
	defer c.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		f, lost := l.pass(c, r)
		piece := buffer[:n]
		switch {
		case lost:
			piece = nil
		case f.Cut && n > 0:
			_, _ = to.Write(piece[:n/2])
			return
		case f.Change != nil && n > 0:
			piece = f.Change(piece)
		}
		if len(piece) > 0 {
			if _, err := to.Write(piece); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while the route holds or delays its bytes, and returns the other
// parts of the fault.
func (l *Links) pass(c *linked, r Route) (f LinkFault, lost bool) {
	for delayed := false; ; {
		l.mu.Lock()
		f, lost = l.fault(r), c.forgotten
		changed := l.changed
		l.mu.Unlock()
		switch {
		case lost:
			return f, true
		case f.Hold:
			<-changed
		case f.Delay > 0 && !delayed:
			time.Sleep(f.Delay) // the fault itself
			delayed = true
		default:
			return f, false
		}
	}
}

// fault returns the fault of a route; l.mu is held.
func (l *Links) fault(r Route) LinkFault {
	for _, known := range []Route{r, {"", r.To}, {r.From, ""}} {
		if f, found := l.faults[known]; found {
			return f
		}
	}
	return LinkFault{}
}
