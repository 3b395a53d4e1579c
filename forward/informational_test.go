package forward

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// informs says the pieces between the head and the end of each request, and
// reads step bytes of the body after each. Then it answers as hashed does.
func informs(step int64, pieces func() []string) func(*peerConn) {
	return func(c *peerConn) {
		for {
			r, err := http.ReadRequest(c.br)
			if err != nil {
				return
			}
			sum := sha256.New()
			body := io.TeeReader(r.Body, sum)
			for _, piece := range pieces() {
				c.say(piece)
				_, _ = io.CopyN(io.Discard, body, step)
			}
			if _, err := io.Copy(io.Discard, body); err != nil {
				return
			}
			c.p.requests.Add(1)
			text := fmt.Sprintf("%x", sum.Sum(nil))
			c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
		}
	}
}

const (
	continues = "HTTP/1.1 100 Continue\r\n\r\n"
	hints     = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 7\r\n\r\n"
)

// TestInformedUpload makes the issuer send informational answers before it reads
// the body. The whole body arrives, and the connection is used again.
func TestInformedUpload(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
	want := fmt.Sprintf("%x", sha256.Sum256(large))
	for name, pieces := range map[string][]string{
		"100":          {continues},
		"102":          {"HTTP/1.1 102 Processing\r\n\r\n"},
		"103":          {hints},
		"several":      {continues + hints + hints, hints, continues},
		"in pieces":    strings.Split(continues+hints, ""),
		"40 KiB":       {"HTTP/1.1 103 Early Hints\r\nLink: " + strings.Repeat("a", 40<<10) + "\r\n\r\n", hints},
		"partly early": {"HTTP/1.1 1", "00 Continue\r\n\r\nHTTP/1.1 103 Hi", "nts\r\n\r\n"},
	} {
		p := newPeer(t, informs(1<<10, func() []string { return pieces }))
		f, _ := start(t, nil, p.addr)
		for _, r := range []*Request{{Body: large}, {Stream: bytes.NewReader(large), Length: int64(len(large))}} {
			r.Method, r.Target = "POST", "/"
			if got := fetchOf(t.Context(), f, r); got.err != nil || got.body != want || got.header.Get("Link") != "" {
				t.Fatalf("%s: the answer is %d %q %v, %v; want that of the whole body", name, got.status, got.body, got.header, got.err)
			}
		}
		if n := p.conns.Load(); n != 1 {
			t.Errorf("%s: %d connections were made, want one for all", name, n)
		}
	}
}

// TestDrawnInformedUpload draws informational answers, the pieces in which they
// arrive, and bodies around the size from which an upload listens.
func TestDrawnInformedUpload(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var pieces []string
	p := newPeer(t, informs(777, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return pieces
	}))
	f, _ := start(t, nil, p.addr)
	body := bytes.Repeat([]byte("0123456789abcdef-"), 1<<16)
	rapid.Check(t, func(t *rapid.T) {
		heads := rapid.SliceOfN(rapid.SampledFrom([]string{continues, hints, "HTTP/1.1 102 \r\n\r\n", "HTTP/1.0 199 x\r\na:\r\n\r\n"}), 1, 5).Draw(t, "heads")
		var cut []string
		for text := strings.Join(heads, ""); text != ""; {
			n := rapid.IntRange(1, len(text)).Draw(t, "piece")
			cut, text = append(cut, text[:n]), text[n:]
		}
		mu.Lock()
		pieces = cut
		mu.Unlock()
		sent := body[:rapid.IntRange(alone-1, len(body)).Draw(t, "body")]
		got := fetchOf(t.Context(), f, &Request{Method: "PUT", Target: "/", Body: sent})
		if want := fmt.Sprintf("%x", sha256.Sum256(sent)); got.err != nil || got.body != want {
			t.Fatalf("the answer is %d %q, %v; want that of the whole body", got.status, got.body, got.err)
		}
	})
	if n := p.conns.Load(); n != 1 {
		t.Errorf("%d connections were made, want one for all", n)
	}
}

// uploadEnds are bytes of an issuer that does not read the body. Each ends the
// upload, with the issuer's 413 or with an error.
var uploadEnds = []struct {
	name   string
	pieces []string
	closes bool
	kind   Kind // 0: the 413
	text   string
}{
	{name: "413 behind 100", pieces: []string{continues, earlyAnswer}},
	{name: "413 with 103", pieces: []string{hints + earlyAnswer}},
	{name: "413 behind many", pieces: []string{continues, hints, hints + continues, earlyAnswer}},
	{name: "413 in pieces", pieces: strings.Split(hints+earlyAnswer, "")},
	{name: "413 in a partial 103", pieces: []string{hints[:10], hints[10:] + earlyAnswer[:5], earlyAnswer[5:]}},
	{name: "a flood", pieces: []string{strings.Repeat(hints, maxHeadBytes/len(hints)+1)}, kind: KindMalformed, text: faultHeadSize},
	{name: "a flood, then 413", pieces: []string{strings.Repeat(hints, maxHeadBytes/len(hints)), "HTTP/1.1 413 " + strings.Repeat("a", len(hints)) + "\r\n\r\n"}, kind: KindMalformed, text: faultHeadSize},
	{name: "a 103 without an end", pieces: []string{hints[:20] + strings.Repeat("a", maxHeadBytes)}, kind: KindMalformed, text: faultHeadSize},
	{name: "101", pieces: []string{"HTTP/1.1 101 X\r\n"}, kind: KindMalformed, text: faultSwitch},
	{name: "101 behind 100", pieces: []string{continues, "HTTP/1.1 101 X\r\n\r\n"}, kind: KindMalformed, text: faultSwitch},
	{name: "garbage", pieces: []string{"x"}, kind: KindMalformed, text: faultStart},
	{name: "garbage behind 100", pieces: []string{continues + canary}, kind: KindMalformed, text: faultStart},
	{name: "a 103 with a folded line", pieces: []string{"HTTP/1.1 103 X\r\na: b\r\n c\r\n"}, kind: KindMalformed, text: faultFolded},
	{name: "a 413 that goes on", pieces: []string{continues + "HTTP/1.1 413 X\r\nA: b\r\n"}, kind: KindTimeout, text: " in time"},
	{name: "the end", closes: true, kind: KindClosed},
	{name: "the end behind 100", pieces: []string{continues}, closes: true, kind: KindClosed},
	{name: "the end in a 103", pieces: []string{continues, hints[:30]}, closes: true, kind: KindClosed},
}

// TestUploadEnds makes the issuer end an upload that it does not read, also
// after informational answers.
func TestUploadEnds(t *testing.T) {
	t.Parallel()
	for _, c := range uploadEnds {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, func(pc *peerConn) {
				if _, err := http.ReadRequest(pc.br); err != nil {
					return
				}
				for _, piece := range c.pieces {
					pc.say(piece)
				}
				if !c.closes {
					pc.waits(nil)
				}
			})
			f, _ := start(t, func(o *Options) {
				if c.kind == KindTimeout {
					o.AnswerTimeout = 100 * time.Millisecond
				}
			}, p.addr)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			stuck := newStuckReader(alone + 1)
			for name, r := range map[string]*Request{
				"stream": {Stream: endlessZeros{}, Length: 1 << 40},
				"stuck":  {Stream: stuck, Length: 1 << 20, StopStream: stuck.stop},
			} {
				r.Method, r.Target = "PUT", "/"
				got := fetchOf(ctx, f, r)
				switch {
				case c.kind == 0 && (got.err != nil || got.status != 413 || got.body != "no"):
					t.Errorf("%s: %d %q, %v; want the issuer's 413", name, got.status, got.body, got.err)
				case c.kind != 0 && (got.err == nil || got.err.Kind != c.kind || !strings.Contains(got.err.Text, c.text)):
					t.Errorf("%s: %d, %v; want %v %q", name, got.status, got.err, c.kind, c.text)
				}
			}
			// A connection that was closed at once may have failed before the upload.
			if n := stuck.stops.Load(); n != 1 && !(c.closes && n == 0) || p.conns.Load() != 2 {
				t.Errorf("the stream was stopped %d times, with %d connections for 2 requests", n, p.conns.Load())
			}
		})
	}
}

// TestInformedForever takes the body and sends informational answers instead of
// the final one. They do not move the time by which the answer must arrive.
func TestInformedForever(t *testing.T) {
	t.Parallel()
	p := newPeer(t, func(c *peerConn) {
		r, err := http.ReadRequest(c.br)
		if err != nil {
			return
		}
		c.say(continues)
		_, _ = io.Copy(io.Discard, r.Body)
		for {
			if _, err := io.WriteString(c.Conn, "HTTP/1.1 102 Processing\r\n\r\n"); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	f, _ := start(t, func(o *Options) { o.AnswerTimeout = 500 * time.Millisecond }, p.addr)
	got := post(f, strings.Repeat("a", 1<<20))
	if got.err == nil || got.err.Kind != KindTimeout || got.err.Text != textNoHead {
		t.Errorf("%d, %v; want a timeout", got.status, got.err)
	}
}
