package raw

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// patience is how long a fuzz target listens for answers. Nothing depends on it
// but how much is seen: it sets no bound on the gateway.
const patience = 50 * time.Millisecond

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

// FuzzHTTP1: whatever a client sends around signed requests, a second parser
// behind the gateway reads the signed requests and nothing else, at most as often
// as they were signed.
func FuzzHTTP1(f *testing.F) {
	for _, wire := range seeds(f, "http1.txt") {
		if !strings.Contains(wire, "{n*") && !strings.Contains(wire, "{without") {
			f.Add(read(wire))
		}
	}
	issuer := harness.StartUpstream(f)
	issuer.Trusts("the requests are written byte by byte, over HTTP/2 and HTTP/3 too")
	judge := harness.StartJudge(f, issuer.Addr)
	p := newPlaceBefore(f, "h1", issuer, judge.Addr)
	s := signed{"POST", "/api/v1/orders", "abc"}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "{without") || strings.Contains(text, "{n*") || strings.Count(text, "{") > 20 {
			return
		}
		c := &rawCase{signed: s}
		wire := p.Connect(t)
		defer wire.Close()
		sent := c.fill(text, p.key)
		_, _ = io.WriteString(wire, sent)
		_ = wire.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(io.Discard, wire)
		onlySigned(t, p, strings.Count(sent, "X-Signature: "))
		if n := judge.Refused(t); n > 0 {
			t.Fatalf("haproxy refuses %d requests that the gateway forwarded", n)
		}
	})
}

// onlySigned checks what the issuer received since the last check.
func onlySigned(t *testing.T, p *place, most int) {
	t.Helper()
	may := []signed{{"POST", "/api/v1/orders", "abc"}, {"GET", "/api/v1/orders", ""}, next}
	got := p.issuer.Took()
	if len(got) > most {
		t.Fatalf("%d requests were signed, and the issuer received %q", most, harness.Lines(got))
	}
	for _, r := range got {
		if !slices.ContainsFunc(may, func(s signed) bool { return r.Line == s.method+" "+s.target+" HTTP/1.1" && r.Body == s.body }) {
			t.Fatalf("the issuer received what nobody signed:\n%.1000s", r.Raw())
		}
		if tenants := r.Values("X-Gateway-Tenant"); !slices.Equal(tenants, []string{"acme"}) {
			t.Fatalf("the issuer received the tenants %q", tenants)
		}
	}
}

// placeholder stands in the seeds of FuzzHTTP2 for the header block of a signed
// request, which has always the same length.
var placeholder = plainBlock(newMessage(signed{"GET", "/api/v1/orders", ""}, harness.Credentials{ID: "ck_live_" + strings.Repeat("a", 32), Secret: "x"}).fields)

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

// FuzzHTTP2: whatever frames a client sends, the gateway goes on answering, and
// the issuer receives signed requests only.
func FuzzHTTP2(f *testing.F) {
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
		block := plainBlock(newMessage(signed{"GET", "/api/v1/orders", ""}, p.key).fields)
		if len(block) != len(placeholder) {
			t.Fatalf("a block has %d bytes, and its placeholder %d", len(block), len(placeholder))
		}
		wire := p.Connect(t)
		defer wire.Close()
		frames = bytes.Replace(frames, placeholder, block, 1)
		_, _ = io.WriteString(wire, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+string(frames))
		_ = wire.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(io.Discard, wire)
		onlySigned(t, p, 1)
		if answer := p.Send(t, &harness.Request{Method: "GET", Target: "/livez"}); answer.Status != 200 {
			t.Fatalf("then /livez is answered %s", answer)
		}
	})
}
