package raw

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// An h2Conn is a connection that sends frames as it is told.
type h2Conn struct {
	net.Conn
	*http2.Framer
	block bytes.Buffer
	coder *hpack.Encoder
}

// newH2Conn sends the preface and empty settings.
func newH2Conn(t *testing.T, conn net.Conn) *h2Conn {
	t.Helper()
	c := &h2Conn{Conn: conn, Framer: http2.NewFramer(conn, conn)}
	c.coder = hpack.NewEncoder(&c.block)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.AllowIllegalWrites = true
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	_ = c.WriteSettings()
	return c
}

// encode returns a header block. Values keep their bytes.
func (c *h2Conn) encode(fields []field) []byte {
	c.block.Reset()
	for _, f := range fields {
		_ = c.coder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value})
	}
	return bytes.Clone(c.block.Bytes())
}

// send sends a message on a stream. Writing may fail: the gateway may have closed.
func (c *h2Conn) send(m *message, stream uint32) {
	block := c.encode(m.fields)
	const most = 16 << 10
	bare := len(m.data) == 0 && len(m.trailers) == 0
	_ = c.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: block[:min(most, len(block))], EndStream: bare, EndHeaders: len(block) <= most,
	})
	for block = block[min(most, len(block)):]; len(block) > 0; block = block[min(most, len(block)):] {
		_ = c.WriteContinuation(stream, len(block) <= most, block[:min(most, len(block))])
	}
	for i, data := range m.data {
		_ = c.WriteData(stream, i == len(m.data)-1 && len(m.trailers) == 0, []byte(data))
	}
	if len(m.trailers) > 0 {
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.encode(m.trailers), EndStream: true, EndHeaders: true})
	}
}

// outcomes reads until there are as many outcomes as are wanted, or the
// connection ends: the status of an answer, reset for a stream, goaway for a
// connection that ends with an error.
func (c *h2Conn) outcomes(want int) []string {
	var got []string
	for len(got) < want {
		frame, err := c.ReadFrame()
		if err != nil {
			return append(got, ended(err))
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = c.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			if status := f.PseudoValue("status"); status != "" && !strings.HasPrefix(status, "1") {
				got = append(got, status)
			}
		case *http2.RSTStreamFrame:
			if f.ErrCode != http2.ErrCodeNo { // that asks for no more of a body that nobody reads
				got = append(got, "reset")
			}
		case *http2.GoAwayFrame:
			got = append(got, "goaway")
		}
	}
	return got
}

// alive reports whether the connection answers a ping, and nothing else comes
// before that but the ends of answers. A refusal may overtake trailers under way:
// net/http closes such a connection, because it has forgotten the stream.
func (c *h2Conn) alive(overtaken bool) error {
	_ = c.WritePing(false, [8]byte{1, 2, 3})
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return err
		}
		switch f := frame.(type) {
		case *http2.PingFrame:
			if f.IsAck() {
				return nil
			}
		case *http2.GoAwayFrame:
			if overtaken {
				return nil
			}
			return errors.New("the connection was given up")
		case *http2.MetaHeadersFrame:
			return errors.New("another answer")
		}
	}
}

// dialHTTP2 opens a connection for HTTP/2, with or without TLS.
func (p *place) dialHTTP2(t *testing.T, secured bool) *h2Conn {
	t.Helper()
	if secured {
		return newH2Conn(t, p.dialTLS(t, "h2"))
	}
	return newH2Conn(t, p.Connect(t).Conn)
}

// TestHTTP2Fields sends the cases of fields.txt over HTTP/2, with and without TLS.
func TestHTTP2Fields(t *testing.T) {
	t.Parallel()
	eachWay(t, "fields.txt", func(t *testing.T, c *rawCase, p *place, conn *h2Conn) []string {
		m := newMessage(c.signed, p.key)
		m.change(t, c.wire)
		conn.send(m, 1)
		expect, _, _ := strings.Cut(c.expect, "/")
		c.expect = expect
		return conn.outcomes(1)
	})
}

// TestHTTP2Frames sends the cases of frames.txt, with and without TLS.
func TestHTTP2Frames(t *testing.T) {
	t.Parallel()
	eachWay(t, "frames.txt", func(t *testing.T, c *rawCase, p *place, conn *h2Conn) []string {
		var got []string
		block := conn.encode(newMessage(c.signed, p.key).fields)
		for step := range strings.SplitSeq(c.wire, " ; ") {
			if step == "answered" {
				got = append(got, conn.outcomes(1)...)
				continue
			}
			conn.step(t, unescape(t, step), p, block, c.signed)
		}
		return append(got, conn.outcomes(len(strings.Fields(c.expect))-len(got))...)
	})
}

// TestHTTP2Gone: the client is gone when it resets the stream. It is gone, too, when it
// closes its side of the connection, unlike over HTTP/1.1: net/http ends all its streams.
func TestHTTP2Gone(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "h1 h2c")
	done := make(chan struct{})
	defer close(done)
	for name, leave := range map[string]func(*h2Conn) error{
		"reset":  func(c *h2Conn) error { return c.WriteRSTStream(1, http2.ErrCodeCancel) },
		"closed": func(c *h2Conn) error { return (&harness.Wire{Conn: c.Conn}).CloseWrite() },
	} {
		p.issuer.Replies(harness.Reply{Wait: done})
		conn, m := p.dialHTTP2(t, false), newMessage(next, p.NewKey(nil))
		m.fields = append(m.fields, field{"x-request-id", name})
		conn.send(m, 1)
		harness.Eventually(t, "the request reached the issuer", func() bool { return len(p.issuer.Took()) > 0 })
		if err := leave(conn); err != nil {
			t.Fatal(err)
		}
		p.Logged("access.log", `"request_id":"`+name+`"`, `"outcome":"client_gone"`, `"status":499`)
		if err := conn.alive(false); (err == nil) != (name == "reset") {
			t.Errorf("%s: the connection: %v", name, err)
		}
	}
}

// step takes one step of a case of frames.txt. block is the header section of the
// signed request.
func (c *h2Conn) step(t testing.TB, step string, p *place, block []byte, s signed) {
	t.Helper()
	words := strings.SplitN(step, " ", 5)
	number := func(i int) uint32 {
		n, err := strconv.ParseUint(words[i], 10, 32)
		if err != nil {
			t.Fatalf("%q: %v", step, err)
		}
		return uint32(n)
	}
	switch words[0] {
	case "frame": // type, flags, stream, payload
		payload := ""
		if len(words) > 4 {
			payload = words[4]
		}
		_ = c.WriteRawFrame(http2.FrameType(number(1)), http2.Flags(number(2)), number(3), []byte(payload))
	case "request": // stream; another request than the signed one
		c.send(newMessage(next, p.key), number(1))
	case "head": // type, flags, stream: the whole block
		_ = c.WriteRawFrame(http2.FrameType(number(1)), http2.Flags(number(2)), number(3), block)
	case "first": // the same with the first half
		_ = c.WriteRawFrame(http2.FrameType(number(1)), http2.Flags(number(2)), number(3), block[:len(block)/2])
	case "second":
		_ = c.WriteRawFrame(http2.FrameType(number(1)), http2.Flags(number(2)), number(3), block[len(block)/2:])
	case "body": // flags, stream
		_ = c.WriteRawFrame(http2.FrameData, http2.Flags(number(1)), number(2), []byte(s.body))
	case "raw":
		_, _ = io.WriteString(c.Conn, strings.TrimPrefix(step, "raw "))
	default:
		t.Fatalf("no step is named %q", words[0])
	}
}

// eachWay sends the cases of a file with and without TLS.
func eachWay(t *testing.T, file string, send func(*testing.T, *rawCase, *place, *h2Conn) []string) {
	for _, secured := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[secured], func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, "h1 h2 h2c h3")
			for _, c := range readCases(t, file) {
				t.Run(c.name, func(t *testing.T) {
					conn := p.dialHTTP2(t, secured)
					defer conn.Close()
					got := send(t, &c, p, conn)
					if !among(got, c.expect) {
						t.Errorf("line %d: outcomes are %q, want %q", c.line, got, c.expect)
					}
					if end := got[len(got)-1]; end != "goaway" && end != "closed" {
						overtaken := end != "200" && strings.Contains(c.wire, "trailer ")
						if err := conn.alive(overtaken); err != nil {
							t.Errorf("line %d: behind the case: %v", c.line, err)
						}
					}
					accepted := strings.Count(strings.Join(got, " "), "200")
					wantOnlySigned(t, p.issuer.Took(), accepted, c.signed, next)
				})
			}
			p.issuer.None(t)
		})
	}
}
