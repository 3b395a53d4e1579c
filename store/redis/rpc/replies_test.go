package rpc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// Whatever a server sends takes no more memory than the bounds of a reply allow,
// and ends the connection. The numbers are the least that show it: a gateway that
// believes them would not take the machine down.
func TestRepliesThatNoRedisGives(t *testing.T) {
	for name, reply := range map[string]string{
		"a list without end":           "*30000000\r\n",
		"a set without end":            "~30000000\r\n",
		"a push without end":           ">30000000\r\n",
		"a map without end":            "%9000000\r\n",
		"a text without end":           "$300000000\r\n",
		"an error without end":         "!300000000\r\n",
		"more than a number holds":     "*18446744073709551617\r\n",
		"a negative length":            "$-2\r\n",
		"a sign":                       "*+1\r\n:1\r\n",
		"a null that RESP has not":     "%-1\r\n",
		"lists in lists":               strings.Repeat("*1\r\n", 3_000_000),
		"empty attributes":             strings.Repeat("|0\r\n", 3_000_000),
		"lists that are long together": "*4\r\n" + strings.Repeat("*2\r\n*300000\r\n", 4),
		"texts that are long together": "*2\r\n$16000000\r\n" + strings.Repeat("a", 16_000_000) + "\r\n$16000000\r\n",
		"a line without end":           "+" + strings.Repeat("a", 16<<20),
		"a line of half an end":        "+OK\n",
		"values of unknown length":     "*?\r\n:1\r\n.\r\n",
		"HTTP":                         "HTTP/1.1 400 Bad Request\r\n\r\n",
		"an alert of TLS":              "\x15\x03\x01\x00\x02\x02F",
	} {
		t.Run(name, func(t *testing.T) {
			for place, answers := range map[string][]string{"first": {reply}, "call": {redistest.Hello, reply}} {
				c := newClient(t, Options{URL: "redis://127.0.0.1:1", IOTimeout: time.Minute, Dialer: redistest.Answer(answers...)})
				before := redistest.Allocated()
				_, err := c.Run(ctx, "asking", Call{Script: NewScript("return ARGV"), Keys: []string{"a"}})
				redistest.WantBounded(t, redistest.Allocated()-before)
				if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "redis has ") {
					t.Errorf("%s: %v; want ErrUnavailable and what redis has sent", place, err)
				}
			}
		})
	}
}

// No client of a topology reads from a server unguarded, not even that of go-redis
// for sentinels.
func TestEveryConnectionIsGuarded(t *testing.T) {
	const tooMuch = "%4000000\r\n" // a client that believes it allocates a tenth of a GiB
	serve := func(network, addr string) string {
		l, err := net.Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					if _, err := c.Read(make([]byte, bufferSize)); err == nil {
						_, _ = io.WriteString(c, tooMuch)
					}
				}()
			}
		}()
		return l.Addr().String()
	}
	addr := serve("tcp", "127.0.0.1:0")
	for name, opt := range map[string]Options{
		"single":   {URL: "redis://" + addr},
		"unix":     {URL: "unix://" + serve("unix", filepath.Join(t.TempDir(), "s"))},
		"cluster":  {ClusterAddrs: []string{addr}},
		"sentinel": {SentinelMaster: "gw", SentinelAddrs: []string{addr}},
	} {
		t.Run(name, func(t *testing.T) {
			opt.IOTimeout = time.Minute
			c := newClient(t, opt)
			before := redistest.Allocated()
			if err := c.Ping(ctx).Err(); err == nil {
				t.Error("PING was answered")
			}
			node := c.Connect(addr)
			defer node.Close()
			if err := node.Ping(ctx).Err(); err == nil || !strings.Contains(err.Error(), "redis has announced") {
				t.Errorf("a node: %v, want what it has announced", err)
			}
			redistest.WantBounded(t, redistest.Allocated()-before)
		})
	}
}

// A reply within the bounds passes, in any pieces. One that announces more than a
// bound, at any place in it, does not.
func TestRepliesInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r replyStream
		for range rapid.IntRange(1, 5).Draw(t, "replies") {
			if err := inPieces(t, &r, drawReply(t, 6, "")); err != nil {
				t.Fatal(err)
			}
			if len(r.line) != 0 || r.text != 0 || len(r.open) != 0 {
				t.Fatalf("after a whole reply: %+v", r)
			}
		}
		bad := rapid.SampledFrom([]string{
			fmt.Sprintf("$%d\r\n", rapid.IntRange(MaxReplyBytes, 1<<40).Draw(t, "bytes")),
			fmt.Sprintf("*%d\r\n", rapid.IntRange(maxReplyValues+1, 1<<40).Draw(t, "values")),
			fmt.Sprintf("%%%d\r\n", rapid.IntRange(maxReplyValues/2+1, 1<<40).Draw(t, "pairs")),
			strings.Repeat("*1\r\n", maxReplyDepth+1),
			rapid.StringMatching(`[^-+:_#,($=!*~>%].{0,20}`).Draw(t, "no reply"),
			rapid.StringMatching(`[*~>%$=!][^0-9\r\n]\r\n`).Draw(t, "no length"),
		}).Draw(t, "bad")
		if err := inPieces(t, &r, drawReply(t, 6, bad)); err == nil {
			t.Fatalf("%q passed", bad)
		}
	})
}

// drawReply draws a reply with lists of the depth at most. If bad is not empty, the
// reply ends with it.
func drawReply(t *rapid.T, depth int, bad string) string {
	kinds := scalarKinds + textKinds + listKinds
	if depth == 0 {
		kinds = scalarKinds + textKinds
	}
	kind := rapid.SampledFrom([]byte(kinds)).Draw(t, "kind")
	if strings.IndexByte(listKinds, kind) < 0 && bad != "" {
		return bad
	}
	switch {
	case rapid.IntRange(0, 9).Draw(t, "null") == 0 && bad == "":
		return rapid.SampledFrom([]string{"$-1\r\n", "*-1\r\n", "_\r\n"}).Draw(t, "nil")
	case strings.IndexByte(scalarKinds, kind) >= 0:
		return string(kind) + rapid.StringMatching(`[^\r\n]{0,9}`).Draw(t, "line") + "\r\n"
	case strings.IndexByte(textKinds, kind) >= 0:
		text := rapid.String().Draw(t, "text") + rapid.SampledFrom([]string{"", "\r\n*2147483647\r\n", "\n"}).Draw(t, "more")
		return fmt.Sprintf("%c%d\r\n%s\r\n", kind, len(text), text)
	}
	n := rapid.IntRange(0, 4).Draw(t, "length")
	if bad != "" {
		n = max(n, 1)
	}
	reply := fmt.Sprintf("%c%d\r\n", kind, n)
	if kind == '%' {
		n *= 2
	}
	for i := range n {
		if bad != "" && i == n-1 {
			return reply + drawReply(t, depth-1, bad)
		}
		reply += drawReply(t, depth-1, "")
	}
	return reply
}

func inPieces(t *rapid.T, r *replyStream, reply string) error {
	for len(reply) > 0 {
		n := rapid.IntRange(1, len(reply)).Draw(t, "piece")
		if err := r.check([]byte(reply[:n])); err != nil {
			return err
		}
		reply = reply[n:]
	}
	return nil
}

// FuzzHello: a server may answer any bytes to the first command of a connection.
func FuzzHello(f *testing.F) {
	for _, seed := range []string{redistest.Hello, "*30000000\r\n", "%9000000\r\n", "-ERR unknown command\r\n", "-NOAUTH\r\n", "+OK\r\n", "*3\r\n+a\r\n:1\r\n+b\r\n", "%1\r\n*0\r\n:1\r\n", ">2\r\n+a\r\n:1\r\n" + redistest.Hello, "HTTP/1.1 400 Bad Request\r\n\r\n", "\x15\x03\x01\x00\x02\x02F", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		c := newClient(t, Options{URL: "redis://127.0.0.1:1", IOTimeout: time.Minute, Dialer: redistest.Answer(reply)})
		before := redistest.Allocated()
		_ = c.Ping(t.Context()).Err() // nothing rests on it
		redistest.WantBounded(t, redistest.Allocated()-before)
	})
}
