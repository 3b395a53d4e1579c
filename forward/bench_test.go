package forward

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const benchAnswer = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nDate: Sat, 28 Nov 2026 05:31:06 GMT\r\n" +
	"X-Request-Id: 0b0e4f5e-6f5b-4f9c-8a57-2f4f5d8f9a10\r\nContent-Length: 27\r\n\r\n{\"success\":true,\"data\":{}}\n"

// quickPeer answers each request and allocates nothing. It finds the end of a
// request by its last bytes.
func quickPeer(b testing.TB) *peer {
	answer := []byte(benchAnswer)
	return newPeer(b, func(c *peerConn) {
		buf := make([]byte, 64<<10)
		for n := 0; ; {
			m, err := c.Conn.Read(buf[n:])
			if err != nil {
				return
			}
			if n += m; bytes.HasSuffix(buf[:n], []byte("END")) {
				if _, err := c.Conn.Write(answer); err != nil {
					return
				}
				n = 0
			}
		}
	})
}

var benchBody = []byte(strings.Repeat("x", 1021) + "END")

var benchFields = []Field{
	{"Content-Type", "application/json"}, {"Accept", "*/*"}, {"User-Agent", "bench"},
	{"X-Request-Id", "0b0e4f5e-6f5b-4f9c-8a57-2f4f5d8f9a10"}, {"X-Gateway-Key-Id", "ck_test_0123456789"},
	{"X-Gateway-Tenant", "acme"}, {"X-Gateway-Scopes", "cards:write"}, {"X-Gateway-Operation", "issue_card"},
}

// forwardOnce does the work of a handler for one request.
func forwardOnce(ctx context.Context, f *Forwarder) error {
	answer, err := f.Do(ctx, &Request{Method: "POST", Target: "/api/v1/cards", Host: "gw.example", Fields: benchFields, Body: benchBody})
	if err != nil {
		return err
	}
	_, err = answer.CopyTo(io.Discard, nil)
	return err
}

// transportOnce does the same with net/http.
func transportOnce(ctx context.Context, t *http.Transport, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(benchBody))
	if err != nil {
		return err
	}
	for _, field := range benchFields {
		r.Header.Set(field.Name, field.Value)
	}
	answer, err := t.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// BenchmarkForward sends POSTs of 1 KiB through this package and through
// net/http's transport, from one client and from 32.
func BenchmarkForward(b *testing.B) {
	p := quickPeer(b)
	f, _ := start(b, nil, p.addr)
	t := &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 64,
		DialContext: (&net.Dialer{Timeout: time.Second}).DialContext,
	}
	b.Cleanup(t.CloseIdleConnections)
	ways := []struct {
		name string
		once func(context.Context) error
	}{
		{"forward", func(ctx context.Context) error { return forwardOnce(ctx, f) }},
		{"transport", func(ctx context.Context) error { return transportOnce(ctx, t, "http://"+p.addr+"/api/v1/cards") }},
	}
	for _, way := range ways {
		b.Run(way.name+"/1", func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				if err := way.once(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(way.name+"/32", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				for pb.Next() {
					if err := way.once(ctx); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// maxAllocations is how many allocations one POST of 1 KiB may cost, with an
// answer of four header lines: the answer with its text and its fields, and the
// watch over the context.
const maxAllocations = 7

// TestAllocations keeps the bound.
func TestAllocations(t *testing.T) {
	p := quickPeer(t)
	f, _ := start(t, nil, p.addr)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := testing.AllocsPerRun(500, func() {
		if err := forwardOnce(ctx, f); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%v allocations per request", got)
	if got > maxAllocations && !raceDetector {
		t.Errorf("%v allocations per request, more than %d", got, maxAllocations)
	}
}
