package forward

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

var (
	largeBody   = strings.Repeat("0123456789", 100_000)
	chunkedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// goodAnswers are those that are allowed.
var goodAnswers = []struct {
	name, method, answer string
	status               int
	body                 string
	length               int64
	kept                 bool // the connection is used again
}{
	{"length", "GET", okAnswer, 200, "ok", 2, true},
	{"no body", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", 0, true},
	{"without a reason", "GET", "HTTP/1.1 599 \r\nContent-Length: 0\r\n\r\n", 599, "", 0, true},
	{"large", "GET", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(largeBody), largeBody), 200, largeBody, 1_000_000, true},
	{"chunked", "GET", chunkedHead + "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", 200, "abc", -1, true},
	{"large chunks", "GET", chunkedHead + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(largeBody), largeBody), 200, largeBody, -1, true},
	{"trailers", "GET", "HTTP/1.1 200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-T: 1\r\nX-U: 2\r\n\r\n", 200, "a", -1, true},
	{"1xx before", "GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n\r\n" + okAnswer, 200, "ok", 2, true},
	{"close", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, "ok", 2, false},
	{"until close", "GET", "HTTP/1.1 200 OK\r\n\r\n" + largeBody, 200, largeBody, -1, false},
	{"1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", 2, false},
	{"1.0 kept", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 200, "ok", 2, false},
	{"1.0 until close", "GET", "HTTP/1.0 200 OK\r\n\r\nok", 200, "ok", -1, false},
	{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\n\r\n", 200, "", 0, true},
	{"HEAD with a length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, "", 0, false},
	{"HEAD chunked", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, "", 0, false},
	{"204", "DELETE", "HTTP/1.1 204 No\r\n\r\n", 204, "", 0, true},
	{"204 of length 0", "DELETE", "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", 204, "", 0, true},
	{"304", "GET", "HTTP/1.1 304 No\r\nETag: \"a\"\r\n\r\n", 304, "", 0, true},
	{"a head of 40 KiB", "GET", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 400)+"\r\n", 100) + "Content-Length: 2\r\n\r\nok", 200, "ok", 2, true},
}

// TestGoodAnswers makes the issuer answer in each way that is allowed.
func TestGoodAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range goodAnswers {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, func(pc *peerConn) {
				for pc.request() != nil {
					pc.say(c.answer)
					if c.length == -1 && !strings.Contains(c.answer, "chunked") {
						return
					}
				}
			})
			f, seen := start(t, nil, p.addr)
			for range 2 {
				a, err := f.Do(t.Context(), &Request{Method: c.method, Target: "/"})
				if err != nil {
					t.Fatal(err)
				}
				var body bytes.Buffer
				if _, err := a.CopyTo(&body, nil); err != nil || a.Status != c.status || body.String() != c.body || a.Length != c.length {
					t.Fatalf("the answer is %d of length %d with %.20q, %v", a.Status, a.Length, body.String(), err)
				}
				for _, name := range []string{"Connection", "Trailer", "Transfer-Encoding", "Link", "X-T"} {
					if headerOf(a).Get(name) != "" {
						t.Errorf("%s is passed on", name)
					}
				}
			}
			if n := p.conns.Load(); (n == 1) != c.kept {
				t.Errorf("%d connections for two requests; kept should be %v", n, c.kept)
			}
			if kinds := seen.kinds(); len(kinds) != 0 {
				t.Errorf("the observer received %v", kinds)
			}
		})
	}
}

// TestEventStream checks that each event is passed on before the next one is
// sent.
func TestEventStream(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"text/event-stream; charset=utf-8", "application/json"} {
		next := make(chan struct{})
		p := newPeer(t, func(c *peerConn) {
			c.request()
			c.say("HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\nTransfer-Encoding: chunked\r\n\r\n")
			for range next {
				c.say("3\r\nabc\r\n")
			}
			c.say("0\r\n\r\n")
		})
		f, _ := start(t, func(o *Options) {
			if strings.HasPrefix(contentType, "text/event-stream") {
				o.StallTimeout = time.Nanosecond
			}
		}, p.addr)
		a, err := f.Do(t.Context(), &Request{Method: "GET", Target: "/"})
		if err != nil || a.EventStream != strings.HasPrefix(contentType, "text/event-stream") {
			t.Fatalf("%s: %v, %v", contentType, a, err)
		}
		flushed := make(chan string)
		var got bytes.Buffer
		go func() {
			defer close(flushed)
			if _, err := a.CopyTo(&got, func() error { flushed <- got.String(); got.Reset(); return nil }); err != nil {
				t.Error(err)
			}
		}()
		if text := <-flushed; text != "" {
			t.Errorf("%s: %q was flushed, want the head alone", contentType, text)
		}
		for range 3 {
			next <- struct{}{}
			if text := <-flushed; text != "abc" {
				t.Errorf("%s: %q was flushed, want each event by itself", contentType, text)
			}
		}
		close(next)
		for range flushed {
		}
	}
}

// TestNotFlushed: a body that arrived at once, or has a known length, is
// written without a flush.
func TestNotFlushed(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000),
	} {
		p := newPeer(t, answers(answer))
		f, _ := start(t, nil, p.addr)
		a, err := f.Do(t.Context(), &Request{Method: "GET", Target: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.in.Peek(len("2\r\nok\r\n0\r\n\r\n")); err != nil { // until it has arrived
			t.Fatal(err)
		}
		if _, err := a.CopyTo(io.Discard, func() error { t.Error("flushed"); return nil }); err != nil {
			t.Error(err)
		}
	}
}

// TestReadInPieces reads a body byte by byte, both when it is already in memory
// and when it is not.
func TestReadInPieces(t *testing.T) {
	t.Parallel()
	p := newPeer(t, answers(okAnswer))
	f, _ := start(t, nil, p.addr)
	a, err := f.Do(t.Context(), &Request{Method: "GET", Target: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if err := iotest.TestReader(iotest.OneByteReader(a), []byte("ok")); err != nil {
		t.Error(err)
	}
}

// TestNobodyElsesBytes sends many requests at once to an issuer that answers
// some of them wrongly. Each answer belongs to its request.
func TestNobodyElsesBytes(t *testing.T) {
	t.Parallel()
	p := newPeer(t, func(c *peerConn) {
		for {
			r := c.request()
			if r == nil {
				return
			}
			id := r.URL.Path
			good := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(id), id)
			switch last := id[len(id)-1]; last {
			case '3':
				c.say(good + good)
			case '5':
				c.say(good[:len(good)-2])
				return
			case '7':
				c.say(good + "HTTP/1.1 200 OK\r\n")
			default:
				c.say(good)
			}
		}
	})
	f, _ := start(t, nil, p.addr)
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for i := range 100 {
				id := fmt.Sprintf("/%d/%d", worker, i)
				got := fetchOf(context.Background(), f, &Request{Method: "GET", Target: id})
				cut := id[len(id)-1] == '5'
				if !cut && (got.err != nil || got.body != id) || cut && (got.err == nil || got.err.Kind != KindBodyCut || !strings.HasPrefix(id, got.body)) {
					t.Errorf("the answer to %s is %q, %v", id, got.body, got.err)
				}
			}
		})
	}
	all.Wait()
	if n := p.requests.Load(); n != 1600 {
		t.Errorf("%d requests arrived, want each once", n)
	}
}

// TestAfterClose uses a closed forwarder: requests still work, and no
// connection stays open.
func TestAfterClose(t *testing.T) {
	t.Parallel()
	p := newPeer(t, answers(okAnswer))
	f, seen := start(t, nil, p.addr)
	wantOK(t, get(f))
	f.Close()
	wantOK(t, get(f))
	if n := seen.conns.Load(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
}
