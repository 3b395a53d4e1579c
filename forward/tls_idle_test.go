package forward

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// idleTLSFaults are things that an issuer can do to an idle connection over
// TLS.
var idleTLSFaults = map[string]struct {
	with func(c *peerConn, raw net.Conn) // in one segment with the answer
	late func(c *peerConn, raw net.Conn) // afterwards
	told []Kind
}{"closed with an alert": {late: func(c *peerConn, _ net.Conn) { _ = c.Close() }},
	"closed without":                {late: func(_ *peerConn, raw net.Conn) { _ = raw.Close() }},
	"an unasked answer":             {late: func(c *peerConn, _ net.Conn) { c.say(okAnswer + canary) }, told: []Kind{KindUnasked}},
	"half a record":                 {late: func(_ *peerConn, raw net.Conn) { _, _ = raw.Write([]byte("\x17\x03\x03\x00\x20" + canary)) }, told: []Kind{KindUnasked}},
	"garbage":                       {late: func(_ *peerConn, raw net.Conn) { _, _ = raw.Write([]byte(canary)) }},
	"an unasked answer right away":  {with: func(c *peerConn, _ net.Conn) { c.say(okAnswer + canary) }, told: []Kind{KindUnasked}},
	"half a record right away":      {with: func(_ *peerConn, raw net.Conn) { _, _ = raw.Write([]byte("\x17\x03\x03\x00\x20")) }, told: []Kind{KindUnasked}},
	"closed with an alert, at once": {with: func(c *peerConn, _ net.Conn) { _ = c.Conn.(*tls.Conn).CloseWrite() }},
}

// TestIdleTLS checks that none of these connections is used again, even if
// crypto/tls has already read the bytes from the socket.
func TestIdleTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.server(t, "127.0.0.1", time.Time{})}}
	for name, c := range idleTLSFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := make(chan struct{})
			p := newPeer(t, func(pc *peerConn) {
				segment := &heldConn{Conn: pc.Conn}
				secured(config, func(sc *peerConn) {
					sc.request()
					segment.hold()
					sc.say(okAnswer)
					if pc.n == 1 && c.with != nil {
						c.with(sc, segment)
					}
					segment.release()
					pc.waits(now)
					if pc.n == 1 && c.late != nil {
						c.late(sc, pc.Conn)
					}
					for sc.request() != nil {
						sc.say(okAnswer)
					}
				})(&peerConn{Conn: segment, p: pc.p, n: pc.n})
			})
			f, seen := start(t, withTLS(ca, nil), p.addr)
			wantOK(t, get(f))
			close(now)
			if c.late != nil {
				waitReadable(t, f.issuers[0])
			}
			wantOK(t, get(f))
			if p.conns.Load() != 2 || p.requests.Load() != 2 {
				t.Errorf("%d connections and %d requests, want 2 of each", p.conns.Load(), p.requests.Load())
			}
			if kinds := seen.kinds(); !slices.Equal(kinds, c.told) || strings.Contains(seen.text(), canary) {
				t.Errorf("the observer received %v, want %v", kinds, c.told)
			}
		})
	}
}

// A heldConn collects everything that is written while it is held, for one
// write.
type heldConn struct {
	net.Conn
	held bool
	data []byte
}

func (c *heldConn) SetWriteDeadline(time.Time) error { return nil } // an alert sets it

func (c *heldConn) hold() { c.held = true }
func (c *heldConn) release() {
	c.held = false
	_, _ = c.Conn.Write(c.data)
}

func (c *heldConn) Write(p []byte) (int, error) {
	if c.held {
		c.data = append(c.data, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}
