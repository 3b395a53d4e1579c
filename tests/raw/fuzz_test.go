package raw

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// silence is how long a fuzz target listens when nothing comes. It bounds nothing: a
// request that is cut off then may be answered or not.
const silence = 10 * time.Millisecond

// seeds are the cases of a file.
func seeds(f *testing.F, file string) []string {
	f.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		f.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(cells) == 4 && len(line) < 2000 {
			all = append(all, cells[3])
		}
	}
	return all
}

// seal is a counter that makes the requests of each input different from all others, so
// that what reaches the issuer late is not taken for a request of the next input.
var seal atomic.Uint32

// FuzzHTTP1: whatever a client sends around signed requests, a second parser
// behind the gateway reads the signed requests and nothing else, each at most once,
// and the connection ends when the client has ended its side.
func FuzzHTTP1(f *testing.F) {
	harness.Fuzzing(f)
	for _, wire := range seeds(f, "http1.txt") {
		if !strings.Contains(wire, "{n*") && !strings.Contains(wire, "{without") {
			f.Add(read(wire))
		}
	}
	issuer := harness.StartUpstream(f)
	judge := harness.StartJudge(f, issuer.Addr)
	p := newPlaceBefore(f, "h1", issuer, judge.Addr)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "{without") || strings.Contains(text, "{n*") || strings.Count(text, "{") > 20 {
			return
		}
		query := fmt.Sprintf("?n=%08x", seal.Add(1))
		orders := "/api/v1/orders" + query
		c := &rawCase{signed: signed{"POST", orders, "abc"}, then: signed{"GET", next.target + query, ""}}
		text = strings.ReplaceAll(text, "/api/v1/orders", orders) + "GET /livez HTTP/1.1\r\nHost: gw.example\r\nConnection: close\r\n\r\n"
		wire := p.Connect(t)
		defer wire.Close()
		_, _ = io.WriteString(wire, c.fill(text, p.key)) // the gateway may have closed in the middle
		untilItEnds(t, wire, saysClose)
		onlySigned(t, p)
		if n, last := judge.Refused(t); n > 0 {
			t.Fatalf("haproxy refuses %d requests that the gateway forwarded, the last of them: %.2000s", n, last)
		}
	})
}

// untilItEnds listens until the gateway announces the end or nothing comes. Then it
// ends the client's side, and requires that the gateway ends the connection.
func untilItEnds(t *testing.T, wire *harness.Wire, announced func(heard []byte) bool) {
	t.Helper()
	buffer, heard := make([]byte, 16<<10), []byte(nil)
	for patience, ends := silence, false; ; {
		_ = wire.SetReadDeadline(time.Now().Add(patience))
		n, err := wire.Conn.Read(buffer)
		heard = append(heard, buffer[:n]...)
		switch {
		case announced(heard):
			return // net/http sends its last bytes up to a second before it closes
		case err == nil:
		case ended(err) == "closed":
			return
		case ends:
			t.Fatalf("%s after the client has ended its side, the gateway holds the connection", harness.Patience)
		default:
			_ = wire.CloseWrite()
			patience, ends = harness.Patience, true
		}
	}
}

// saysClose reports whether an answer of HTTP/1 is the last of its connection.
func saysClose(heard []byte) bool { return bytes.Contains(heard, []byte("\r\nConnection: close\r\n")) }

// saysGoAway reports whether there is a GOAWAY among frames of HTTP/2.
func saysGoAway(heard []byte) bool {
	in := http2.NewFramer(nil, bytes.NewReader(heard))
	for {
		header, err := in.ReadFrameHeader()
		if err != nil || header.Type == http2.FrameGoAway {
			return err == nil
		}
		if _, err := in.ReadFrameForHeader(header); err != nil {
			return false
		}
	}
}

// onlySigned checks what the issuer has received until now.
func onlySigned(t *testing.T, p *place) {
	t.Helper()
	got := p.issuer.Took()
	if err := p.issuer.Unproved(); err != nil {
		t.Fatal(err)
	}
	for _, r := range got {
		if tenants := r.Values("X-Gateway-Tenant"); !slices.Equal(tenants, []string{"acme"}) {
			t.Fatalf("the issuer received the tenants %q in\n%.1000s", tenants, r.Raw())
		}
	}
}

// placeholder stands in the seeds of FuzzHTTP2 for the header block of a signed
// request, which has always the same length.
var placeholder = plainBlock(newMessage(signed{"GET", "/api/v1/orders?n=00000000", ""}, harness.Credentials{ID: "ck_live_" + strings.Repeat("a", 32), Secret: "x"}).fields)

// plainBlock returns a header block without tables and Huffman codes (RFC 7541,
// section 6.2.2), whose length depends on the lengths of the fields alone.
func plainBlock(fields []field) []byte {
	var block []byte
	text := func(s string) {
		if len(s) < 127 {
			block = append(block, byte(len(s)))
		} else {
			block = append(block, 127, byte(len(s)-127)) // up to 254
		}
		block = append(block, s...)
	}
	for _, f := range fields {
		block = append(block, 0)
		text(f.name)
		text(f.value)
	}
	return block
}

// FuzzHTTP2: whatever frames a client sends, the gateway goes on answering and
// ends the connection, and the issuer receives signed requests only.
func FuzzHTTP2(f *testing.F) {
	harness.Fuzzing(f)
	for _, frames := range seeds(f, "frames.txt") {
		frames = repeated(f, frames)
		var out bytes.Buffer
		c := &h2Conn{Framer: http2.NewFramer(&out, nil)}
		c.AllowIllegalWrites = true
		for step := range strings.SplitSeq(frames, " ; ") {
			if verb, _, _ := strings.Cut(step, " "); verb == "frame" || verb == "head" || verb == "first" || verb == "second" {
				c.step(f, read(step), nil, placeholder, next)
			}
		}
		f.Add(out.Bytes())
	}
	p := newPlace(f, "h1 h2 h2c")
	f.Fuzz(func(t *testing.T, frames []byte) {
		target := fmt.Sprintf("/api/v1/orders?n=%08x", seal.Add(1))
		block := plainBlock(newMessage(signed{"GET", target, ""}, p.key).fields)
		if len(block) != len(placeholder) {
			t.Fatalf("a block has %d bytes, and its placeholder %d", len(block), len(placeholder))
		}
		wire := p.Connect(t)
		defer wire.Close()
		frames = bytes.Replace(frames, placeholder, block, 1)
		_, _ = io.WriteString(wire, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+string(frames))
		untilItEnds(t, wire, saysGoAway)
		onlySigned(t, p)
		if answer := p.Send(t, &harness.Request{Method: "GET", Target: "/livez"}); answer.Status != 200 {
			t.Fatalf("then /livez is answered %s", answer)
		}
	})
}
