package forward

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// canary is in everything that a broken issuer sends. No text may contain it.
const canary = "4111111111111111"

// faults are mistakes that an issuer makes on its first connection, each with
// the result for the client: an error of one kind, or a complete answer.
var faults = []struct {
	name   string
	method string // GET unless set
	serve  func(c *peerConn)
	kind   Kind   // of the error; 0: none
	status int    // of the answer whose body fails, or of a good one
	body   string // the part of the body that arrives
	told   []Kind // kinds that the observer receives
}{
	{name: "closes before the head", serve: func(*peerConn) {}, kind: KindClosed},
	{name: "closes in the status line", serve: says("HTTP/1.1 20"), kind: KindClosed},
	{name: "closes in the head", serve: says("HTTP/1.1 200 OK\r\nX: " + canary), kind: KindClosed},
	{name: "closes behind a line", serve: says("HTTP/1.1 200 OK\r\nX: " + canary + "\r\n"), kind: KindClosed},
	{name: "closes behind the head", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), kind: KindBodyCut, status: 200},
	{name: "closes behind 1xx", serve: says("HTTP/1.1 100 Continue\r\n\r\n"), kind: KindClosed},
	{name: "half a body", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), kind: KindBodyCut, status: 200, body: "ab"},
	{name: "half a chunk", serve: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), kind: KindBodyCut, status: 200, body: "ab"},
	{name: "no last chunk", serve: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"), kind: KindBodyCut, status: 200, body: "ab"},
	{name: "half a trailer", serve: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: " + canary), kind: KindBodyCut, status: 200, body: "ab"},
	{name: "a trailer without a colon", serve: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n" + canary + "\r\n\r\n"), kind: KindBodyCut, status: 200, body: "ab"},
	{name: "an endless trailer", serve: endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n", "X: "+canary+"\r\n", 10<<20), kind: KindBodyCut, status: 200, body: "ab"},
	{name: "a chunk size that is none", serve: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + canary + "z\r\nab"), kind: KindBodyCut, status: 200},
	{name: "a chunk line with LF alone", serve: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\r\n0\r\n\r\n"), kind: KindBodyCut, status: 200},
	{name: "bytes behind the body", serve: speaks(okAnswer + canary), status: 200, body: "ok", told: []Kind{KindBehind}},
	{name: "a second answer", serve: speaks(okAnswer + okAnswer), status: 200, body: "ok", told: []Kind{KindBehind}},
	{name: "bytes behind the last chunk", serve: speaks("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + canary), status: 200, body: "ok", told: []Kind{KindBehind}},
	{name: "a body to HEAD", method: "HEAD", serve: speaks("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n" + canary), status: 200, told: []Kind{KindBehind}},
	{name: "a body with 204", serve: speaks("HTTP/1.1 204 No\r\nContent-Length: 16\r\n\r\n" + canary), status: 204, told: []Kind{KindBehind}},
	{name: "a body with 304", serve: speaks("HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"), status: 304, told: []Kind{KindBehind}},
	{name: "two lengths", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"), kind: KindMalformed},
	{name: "two equal lengths", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab"), kind: KindMalformed},
	{name: "a list of lengths", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab"), kind: KindMalformed},
	{name: "a negative length", serve: says("HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nab"), kind: KindMalformed},
	{name: "a length with a sign", serve: says("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab"), kind: KindMalformed},
	{name: "an empty length", serve: says("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n"), kind: KindMalformed},
	{name: "a length beyond numbers", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nab"), kind: KindMalformed},
	{name: "both framings", serve: says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"), kind: KindMalformed},
	{name: "both framings with 204", serve: says("HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n"), kind: KindMalformed},
	{name: "another encoding", serve: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), kind: KindMalformed},
	{name: "chunked twice", serve: says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), kind: KindMalformed},
	{name: "chunked in HTTP/1.0", serve: says("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"), kind: KindMalformed},
	{name: "099", serve: says("HTTP/1.1 099 X\r\n\r\n"), kind: KindMalformed},
	{name: "600", serve: says("HTTP/1.1 600 X\r\n\r\n"), kind: KindMalformed},
	{name: "2000", serve: says("HTTP/1.1 2000 X\r\n\r\n"), kind: KindMalformed},
	{name: "no status", serve: says("HTTP/1.1 OK\r\n\r\n"), kind: KindMalformed},
	{name: "a switch of protocols", serve: says("HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + canary), kind: KindMalformed},
	{name: "HTTP/2", serve: says("HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"), kind: KindMalformed},
	{name: "HTTP/1.2", serve: says("HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n"), kind: KindMalformed},
	{name: "a status line with two blanks", serve: says("HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n"), kind: KindMalformed},
	{name: "a folded line", serve: says("HTTP/1.1 200 OK\r\nX: a\r\n " + canary + "\r\nContent-Length: 0\r\n\r\n"), kind: KindMalformed},
	{name: "a folded first line", serve: says("HTTP/1.1 200 OK\r\n\tX: " + canary + "\r\n\r\n"), kind: KindMalformed},
	{name: "a line without a colon", serve: says("HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n"), kind: KindMalformed},
	{name: "a blank before the colon", serve: says("HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nab"), kind: KindMalformed},
	{name: "a line without a name", serve: says("HTTP/1.1 200 OK\r\n: " + canary + "\r\n\r\n"), kind: KindMalformed},
	{name: "NUL in a value", serve: says("HTTP/1.1 200 OK\r\nX: " + canary + "\x00\r\n\r\n"), kind: KindMalformed},
	{name: "CR in a value", serve: says("HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n"), kind: KindMalformed},
	{name: "LF alone", serve: says("HTTP/1.1 200 OK\nContent-Length: 0\n\n"), kind: KindMalformed},
	{name: "10 MiB of one header line", serve: endless("HTTP/1.1 200 OK\r\nX: ", canary, 10<<20), kind: KindMalformed},
	{name: "10 MiB of header lines", serve: endless("HTTP/1.1 200 OK\r\n", "X: "+strings.Repeat(canary, 400)+"\r\n", 10<<20), kind: KindMalformed},
	{name: "257 header lines", serve: says("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: 1\r\n", 257) + "\r\n"), kind: KindMalformed},
	{name: "100,000 1xx", serve: endless("", "HTTP/1.1 103 Early Hints\r\n\r\n", 100_000*28), kind: KindMalformed},
	{name: "garbage", serve: says(canary + "\x00\xff"), kind: KindMalformed},
	{name: "garbage without an end", serve: speaks(canary), kind: KindMalformed},
	{name: "a TLS record", serve: says("\x15\x03\x01\x00\x02\x02\x46"), kind: KindMalformed},
	{name: "silence", serve: speaks(""), kind: KindTimeout},
	{name: "half a head, then silence", serve: speaks("HTTP/1.1 200 OK\r\nX: " + canary), kind: KindTimeout},
	{name: "half a body, then silence", serve: speaks("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), kind: KindBodyCut, status: 200, body: "ab"},
	{name: "a slow drip of the head", serve: drips, kind: KindTimeout},
}

// says reads a request, writes the text and closes.
func says(text string) func(*peerConn) {
	return func(c *peerConn) {
		if c.request() != nil {
			c.say(text)
		}
	}
}

// speaks does not close.
func speaks(text string) func(*peerConn) {
	return func(c *peerConn) {
		if c.request() != nil {
			c.say(text)
			c.hears()
		}
	}
}

// endless repeats a text up to a size.
func endless(start, again string, size int) func(*peerConn) {
	return func(c *peerConn) {
		if c.request() != nil {
			c.say(start)
			block := strings.Repeat(again, 1+64<<10/len(again))
			for left := size; left > 0; left -= len(block) {
				if _, err := io.WriteString(c.Conn, block); err != nil {
					return
				}
			}
		}
	}
}

// drips sends header bytes slowly, until the other side closes.
func drips(c *peerConn) {
	if c.request() != nil {
		c.say("HTTP/1.1 200 OK\r\nX: ")
		for {
			if _, err := io.WriteString(c.Conn, "a"); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// TestFaults makes an issuer fail on its first connection in each way. The
// client gets a typed error or a complete answer. Nothing is sent twice. The
// next request gets its own answer on another connection.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, func(pc *peerConn) {
				if pc.n == 1 {
					c.serve(pc)
					return
				}
				answers(okAnswer)(pc)
			})
			f, seen := start(t, func(o *Options) {
				if c.kind == KindTimeout || strings.Contains(c.name, "silence") {
					o.AnswerTimeout, o.StallTimeout = 100*time.Millisecond, 100*time.Millisecond
				}
			}, p.addr)
			method := c.method
			if method == "" {
				method = "GET"
			}
			got := fetchOf(t.Context(), f, &Request{Method: method, Target: "/"})
			checkFault(t, got, c.kind, c.status, c.body)
			if n := p.requests.Load(); n != 1 && c.name != "closes before the head" {
				t.Errorf("the request arrived %d times, want once", n)
			}
			told := c.told
			if c.kind != 0 {
				told = append(told, c.kind)
			}
			if kinds := seen.kinds(); !slices.Equal(kinds, told) {
				t.Errorf("the observer received %v, want %v", kinds, told)
			}
			f.options.AnswerTimeout = time.Minute
			wantOK(t, get(f))
			if n := p.conns.Load(); n != 2 {
				t.Errorf("%d connections were made, want another one for the second request", n)
			}
			if strings.Contains(seen.text(), canary) || got.err != nil && strings.Contains(got.err.Error(), canary) {
				t.Errorf("bytes of the issuer are in a text:\n%s", seen.text())
			}
		})
	}
}

func checkFault(t *testing.T, got result, kind Kind, status int, body string) {
	t.Helper()
	switch {
	case kind == 0 && got.err != nil:
		t.Fatalf("the request failed: %v", got.err)
	case kind != 0 && (got.err == nil || got.err.Kind != kind):
		t.Fatalf("the error is %v, want kind %v", got.err, kind)
	case got.err != nil && (!got.err.Forwarded || got.err.Text == "" || got.err.Issuer == ""):
		t.Errorf("the error is %+v; a byte of the request was written", *got.err)
	}
	if got.status != status || got.body != body {
		t.Errorf("the answer is %d %q, want %d %q", got.status, got.body, status, body)
	}
}
