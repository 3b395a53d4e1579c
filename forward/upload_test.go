package forward

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
)

// hashed answers with the length and hash of each body.
func hashed(c *peerConn) {
	for {
		r, err := http.ReadRequest(c.br)
		if err != nil {
			return
		}
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		if err != nil {
			return
		}
		c.p.requests.Add(1)
		text := fmt.Sprintf("%d %d %x", r.ContentLength, n, sum.Sum(nil))
		c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
	}
}

// TestUploads sends bodies of each size at which the code changes its way, from
// memory and as streams, over one connection.
func TestUploads(t *testing.T) {
	t.Parallel()
	p := newPeer(t, hashed)
	f, _ := start(t, nil, p.addr)
	for _, size := range []int{0, 1, 1 << 10, joinBelow, joinBelow + 1, alone, alone + 1, uploadBlock, 5<<20 + 1} {
		body := bytes.Repeat([]byte("0123456789abcdef-"), size/17+1)[:size]
		want := fmt.Sprintf("%d %d %x", size, size, sha256.Sum256(body))
		for name, r := range map[string]*Request{
			"memory":     {Body: body},
			"stream":     {Stream: bytes.NewReader(body), Length: int64(size)},
			"in halves":  {Stream: iotest.HalfReader(bytes.NewReader(body)), Length: int64(size)},
			"with EOF":   {Stream: iotest.DataErrReader(bytes.NewReader(body)), Length: int64(size)},
			"and longer": {Stream: io.MultiReader(bytes.NewReader(body), strings.NewReader("more")), Length: int64(size)},
		} {
			r.Method, r.Target = "POST", "/"
			if got := fetchOf(t.Context(), f, r); got.err != nil || got.body != want {
				t.Errorf("%d bytes, %s: the issuer received %q, %v; want %q", size, name, got.body, got.err, want)
			}
		}
	}
	if n := p.conns.Load(); n != 1 {
		t.Errorf("%d connections were made, want one for all", n)
	}
}

// TestBrokenStream sends streams that end before their length, or fail.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	p := newPeer(t, hashed)
	f, seen := start(t, nil, p.addr)
	for _, size := range []int{10, alone + 10, 1 << 20} {
		for name, stream := range map[string]io.Reader{
			"short": bytes.NewReader(make([]byte, size-1)),
			"fails": io.MultiReader(bytes.NewReader(make([]byte, size-1)), iotest.ErrReader(errors.New("broken "+canary))),
		} {
			got := fetchOf(t.Context(), f, &Request{Method: "PUT", Target: "/", Stream: stream, Length: int64(size)})
			if got.err == nil || got.err.Kind != KindUpload || got.err.Forwarded != (size > alone) {
				t.Errorf("%s, %d bytes: %+v, want an error of the upload", name, size, got.err)
			}
		}
	}
	if n := p.requests.Load(); n != 0 {
		t.Errorf("%d requests arrived whole, want none", n)
	}
	if kinds := seen.kinds(); len(kinds) != 0 {
		t.Errorf("the issuer is blamed for %v", kinds)
	}
	wantWell(t, f, p)
}

// wantWell checks that the next request is served.
func wantWell(t *testing.T, f *Forwarder, p *peer) {
	t.Helper()
	before := p.requests.Load()
	if got := post(f, "x"); got.err != nil || got.status != 200 {
		t.Errorf("the next request: %d, %v", got.status, got.err)
	}
	if p.requests.Load() != before+1 {
		t.Error("the next request did not arrive once")
	}
}

// A stuckReader delivers some bytes and then waits until it is stopped.
type stuckReader struct {
	io.Reader
	stopped chan struct{}
	stops   atomic.Int32
	reads   atomic.Int32 // that are going on
}

func newStuckReader(n int) *stuckReader {
	return &stuckReader{Reader: bytes.NewReader(make([]byte, n)), stopped: make(chan struct{})}
}

func (r *stuckReader) Read(p []byte) (int, error) {
	r.reads.Add(1)
	defer r.reads.Add(-1)
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		<-r.stopped
		return 0, errors.New("stopped")
	}
	return n, err
}

func (r *stuckReader) stop() {
	if r.stops.Add(1) == 1 {
		close(r.stopped)
	}
}

const earlyAnswer = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"

// early reads the head of a request and answers without reading its body.
func early(text string) func(*peerConn) {
	return func(c *peerConn) {
		if _, err := http.ReadRequest(c.br); err != nil {
			return
		}
		c.p.requests.Add(1)
		c.say(text)
		<-c.p.closing
	}
}

// TestEarlyAnswer makes the issuer answer an upload that it does not read. The
// client gets the answer although the upload cannot end, and its body is no
// longer read.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	p := newPeer(t, early(earlyAnswer))
	f, _ := start(t, nil, p.addr)
	stuck := newStuckReader(alone + 1)
	for name, r := range map[string]*Request{
		"memory": {Body: make([]byte, 64<<20)},
		"stream": {Stream: endlessZeros{}, Length: 1 << 40},
		"stuck":  {Stream: stuck, Length: 1 << 20, StopStream: stuck.stop},
	} {
		r.Method, r.Target = "PUT", "/"
		if got := fetchOf(t.Context(), f, r); got.err != nil || got.status != 413 || got.body != "no" {
			t.Errorf("%s: %d %q, %v; want the issuer's 413", name, got.status, got.body, got.err)
		}
	}
	if stuck.stops.Load() != 1 || stuck.reads.Load() != 0 {
		t.Errorf("the stream was stopped %d times and is read %d times at the end", stuck.stops.Load(), stuck.reads.Load())
	}
	if p.conns.Load() != 3 {
		t.Errorf("%d connections for 3 requests; none may be used again", p.conns.Load())
	}
}

type endlessZeros struct{}

func (endlessZeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestUploadStalls sends to an issuer that neither reads nor answers.
func TestUploadStalls(t *testing.T) {
	t.Parallel()
	p := newPeer(t, early(""))
	f, seen := start(t, func(o *Options) { o.AnswerTimeout = 100 * time.Millisecond }, p.addr)
	for name, r := range map[string]*Request{
		"memory": {Body: make([]byte, 64<<20)},
		"stream": {Stream: endlessZeros{}, Length: 1 << 40},
	} {
		r.Method, r.Target = "PUT", "/"
		got := fetchOf(t.Context(), f, r)
		if got.err == nil || got.err.Kind != KindTimeout || !got.err.Forwarded {
			t.Errorf("%s: %v, want a timeout", name, got.err)
		}
	}
	if kinds := seen.kinds(); len(kinds) != 2 {
		t.Errorf("the observer received %v, want two timeouts", kinds)
	}
}

// TestUploadCanceled ends the context while a stream waits for its client, and
// while the issuer reads nothing.
func TestUploadCanceled(t *testing.T) {
	t.Parallel()
	p := newPeer(t, early(""))
	f, seen := start(t, nil, p.addr)
	stuck := newStuckReader(alone + 1)
	for name, r := range map[string]*Request{
		"stuck":  {Stream: stuck, Length: 1 << 20, StopStream: stuck.stop},
		"memory": {Body: make([]byte, 64<<20)},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		before := p.requests.Load()
		go func() {
			for p.requests.Load() == before {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		r.Method, r.Target = "PUT", "/"
		got := fetchOf(ctx, f, r)
		if got.err == nil || got.err.Kind != KindCanceled || !got.err.Forwarded {
			t.Errorf("%s: %v, want canceled", name, got.err)
		}
		cancel()
	}
	if kinds := seen.kinds(); len(kinds) != 0 {
		t.Errorf("the issuer is blamed for %v", kinds)
	}
}

// TestClosedInUpload makes the issuer close the connection during an upload,
// with an answer and without.
func TestClosedInUpload(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]Kind{"": KindClosed, "HTTP/1.1 413 Too": KindClosed} {
		p := newPeer(t, func(c *peerConn) {
			if _, err := http.ReadRequest(c.br); err == nil {
				c.say(text)
			}
		})
		f, _ := start(t, nil, p.addr)
		got := fetchOf(t.Context(), f, &Request{Method: "PUT", Target: "/", Body: make([]byte, 32<<20)})
		if got.err == nil || got.err.Kind != kind || !got.err.Forwarded {
			t.Errorf("after %q: %v, want %v", text, got.err, kind)
		}
		if n := p.conns.Load(); n != 1 {
			t.Errorf("after %q: %d connections, want one", text, n)
		}
	}
}
