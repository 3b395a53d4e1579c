package raw

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// The frames of HTTP/3 that are sent (RFC 9114, section 7.2).
const (
	h3Data     = 0x0
	h3Headers  = 0x1
	h3Settings = 0x4
)

// dialHTTP3 opens a connection with a control stream and empty settings.
func (p *place) dialHTTP3(t *testing.T) *quic.Conn {
	t.Helper()
	conn, err := quic.DialAddr(t.Context(), p.secured, &tls.Config{
		RootCAs: p.trusted, ServerName: "gw.example", NextProtos: []string{http3.NextProtoH3}, MinVersion: tls.VersionTLS13,
	}, new(quic.Config))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
	control, err := conn.OpenUniStream()
	if err == nil {
		_, err = control.Write(append([]byte{0}, h3Frame(h3Settings, nil)...))
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// h3Frame returns a frame.
func h3Frame(kind uint64, payload []byte) []byte {
	frame := quicvarint.Append(quicvarint.Append(nil, kind), uint64(len(payload)))
	return append(frame, payload...)
}

// h3Block returns a HEADERS frame.
func h3Block(fields []field) []byte {
	var block bytes.Buffer
	coder := qpack.NewEncoder(&block)
	for _, f := range fields {
		_ = coder.WriteField(qpack.HeaderField{Name: f.name, Value: f.value})
	}
	_ = coder.Close()
	return h3Frame(h3Headers, block.Bytes())
}

// h3Bytes returns the bytes of a message on its stream.
func (m *message) h3Bytes() []byte {
	all := h3Block(m.fields)
	for _, data := range m.data {
		all = append(all, h3Frame(h3Data, []byte(data))...)
	}
	if len(m.trailers) > 0 {
		all = append(all, h3Block(m.trailers)...)
	}
	return all
}

// h3Outcome reads the answer on a stream: its status, reset for the stream, goaway
// for a connection that ends with an error.
func h3Outcome(stream *quic.Stream) string {
	in := quicvarint.NewReader(stream)
	for {
		kind, err := quicvarint.Read(in)
		if err != nil {
			return h3Ended(err)
		}
		length, err := quicvarint.Read(in)
		if err != nil {
			return h3Ended(err)
		}
		payload := make([]byte, length)
		if _, err := io.ReadFull(in, payload); err != nil {
			return h3Ended(err)
		}
		if kind != h3Headers {
			continue
		}
		next := qpack.NewDecoder().Decode(payload)
		for f, err := next(); err == nil; f, err = next() {
			if f.Name == ":status" && !strings.HasPrefix(f.Value, "1") {
				return f.Value
			}
		}
	}
}

func h3Ended(err error) string {
	if reset := new(quic.StreamError); errors.As(err, &reset) {
		return "reset"
	}
	if ended := new(quic.ApplicationError); errors.As(err, &ended) {
		return "goaway"
	}
	return err.Error()
}

// TestHTTP3Fields sends the cases of fields.txt over HTTP/3.
func TestHTTP3Fields(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "h1 h2 h3")
	for _, c := range readCases(t, "fields.txt") {
		t.Run(c.name, func(t *testing.T) {
			m := newMessage(c.signed, p.key)
			m.change(t, c.wire)
			expect := c.expect
			if _, other, differs := strings.Cut(expect, "/"); differs {
				expect = other
			}
			p.overHTTP3(t, &c, expect, m.h3Bytes())
		})
	}
	p.issuer.None(t)
}

// TestHTTP3Frames sends the cases of frames3.txt: bytes of a request stream.
func TestHTTP3Frames(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "h1 h2 h3")
	for _, c := range readCases(t, "frames3.txt") {
		t.Run(c.name, func(t *testing.T) {
			m := newMessage(c.signed, p.key)
			text := unescape(t, c.wire)
			text = strings.ReplaceAll(text, "{head}", string(h3Block(m.fields)))
			text = strings.ReplaceAll(text, "{body}", string(h3Frame(h3Data, []byte(c.signed.body))))
			p.overHTTP3(t, &c, c.expect, []byte(text))
		})
	}
	p.issuer.None(t)
}

func (p *place) overHTTP3(t *testing.T, c *rawCase, expect string, text []byte) {
	t.Helper()
	conn := p.dialHTTP3(t)
	stream, err := conn.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = stream.Write(text) // the gateway may have ended the stream
	_ = stream.Close()
	got := h3Outcome(stream)
	if !among([]string{got}, expect) {
		t.Errorf("line %d: the outcome is %q, want %q", c.line, got, expect)
	}
	_ = conn.CloseWithError(0, "")
	wantOnlySigned(t, p.issuer.Took(), strings.Count(got, "200"), c.signed)
}
