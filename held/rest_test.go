package held

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framesOf speaks HTTP/2 to a server, and begins a POST on stream 1.
func framesOf(t *testing.T, server *httptest.Server) *http2.Framer {
	t.Helper()
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return beginPost(t, conn)
}

func beginPost(t *testing.T, conn net.Conn) *http2.Framer {
	t.Helper()
	var head bytes.Buffer
	fields := hpack.NewEncoder(&head)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "gw.example"}, {":path", "/"}} {
		_ = fields.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	frames := http2.NewFramer(conn, conn)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	_ = frames.WriteSettings()
	_ = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true})
	return frames
}

// A refusal over HTTP/2 takes the body that follows, so that the stream ends with
// the answer and is not reset behind it.
func TestRefusalTakesTheRest(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		discardRest(w, r, 1<<10, time.Minute)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	frames := framesOf(t, server)
	<-entered
	_ = frames.WriteData(1, false, []byte("some "))
	_ = frames.WriteData(1, true, []byte("body"))
	// What follows the answer is in order, so the ping's answer comes behind it.
	ended := false
	for pinged := false; ; {
		frame, err := frames.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame:
			t.Fatalf("the stream was reset: %v", f.ErrCode)
		case *http2.HeadersFrame:
			ended = f.StreamEnded()
		case *http2.PingFrame:
			return
		}
		if ended && !pinged {
			pinged = true
			_ = frames.WritePing(false, [8]byte{1})
		}
	}
}

// restBody is a body that counts what was read of it.
type restBody struct{ left, taken int }

func (b *restBody) Read(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left, b.taken = b.left-n, b.taken+n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (*restBody) Close() error { return nil }

// restDeadlines notes the read deadlines of a connection.
type restDeadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *restDeadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// What is read is bounded in bytes and in time, and is nothing over HTTP/1 and of a
// body that is announced as larger.
func TestRestIsBounded(t *testing.T) {
	t.Parallel()
	const most = 10 << 10
	for name, c := range map[string]struct {
		major  int
		length int64
		size   int
		want   int // at most a block more
	}{
		"small":                  {2, 100, 100, 100},
		"over HTTP/3":            {3, 100, 100, 100},
		"over HTTP/1":            {1, 100, 100, 0},
		"announced as larger":    {2, most + 1, most + 1, 0},
		"of any length":          {2, -1, 1000, 1000},
		"longer than it may be":  {2, -1, 1 << 20, 12 << 10},
		"nothing that announced": {2, 0, 0, 0},
	} {
		body := &restBody{left: c.size}
		w := &restDeadlines{ResponseRecorder: httptest.NewRecorder()}
		r := &http.Request{ProtoMajor: c.major, ContentLength: c.length, Body: body}
		before := time.Now()
		discardRest(w, r, most, time.Hour)
		if body.taken != c.want {
			t.Errorf("%s: %d bytes were read, want %d", name, body.taken, c.want)
		}
		if c.want > 0 && (len(w.set) != 2 || w.set[0].Before(before.Add(time.Hour)) || !w.set[1].IsZero()) {
			t.Errorf("%s: the deadlines are %v", name, w.set)
		}
	}
	body := &restBody{left: 1}
	discardRest(httptest.NewRecorder(), &http.Request{ProtoMajor: 2, ContentLength: 1, Body: body}, restOfRefused, restWait)
	if body.taken != 0 {
		t.Error("a body was read without a deadline")
	}
}
