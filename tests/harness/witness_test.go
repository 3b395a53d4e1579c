package harness

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// send shows the witness a request in pieces, as a connection does.
func send(t *testing.T, text string) {
	t.Helper()
	client, server := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, server) }()
	c := &watched{Conn: client}
	for len(text) > 0 {
		piece := text[:min(7, len(text))]
		if _, err := io.WriteString(c, piece); err != nil {
			t.Fatal(err)
		}
		text = text[len(piece):]
	}
	_ = client.Close()
}

// arrived is a request as an upstream gets it.
func arrived(key, line, body string) *Received {
	return &Received{Line: line + " HTTP/1.1", Headers: []string{"X-Gateway-Key-Id: " + key, "X-Gateway-Operation: issue_card"}, Body: body}
}

// TestWitness checks that the witness misses nothing that must not arrive.
func TestWitness(t *testing.T) {
	g := new(Gateway)
	c := Credentials{ID: "ck_test_witness", Secret: "a secret of the witness' test"}
	stranger := Credentials{ID: c.ID, Secret: "another secret, of nobody"}
	theWitness.knows(g, c.ID, c.Secret)
	want := func(r *Received, why string) {
		t.Helper()
		switch err := theWitness.arrives(r); {
		case why == "" && err != nil:
			t.Errorf("%s: %v", r.Line, err)
		case why != "" && (err == nil || !strings.Contains(err.Error(), why)):
			t.Errorf("%s: %v, want %q", r.Line, err, why)
		}
	}
	const none = "no client has sent it"
	want(arrived(c.ID, "POST /api/v1/a", "x"), none)
	send(t, stranger.Request("POST", "/api/v1/a", "x").Raw())
	send(t, c.Request("POST", "/api/v1/a", "x").Forge().Raw())
	send(t, c.Request("POST", "/api/v1/a", "x").Add("X-Nonce", "second").Raw())
	send(t, strings.Replace(c.Request("POST", "/api/v1/a", "x").Raw(), "\r\n\r\nx", "\r\n\r\ny", 1))
	send(t, c.RequestAt(time.Now().Add(-time.Hour), "POST", "/api/v1/a", "x").Raw())
	send(t, c.RequestAt(time.Now().Add(time.Hour), "POST", "/api/v1/a", "x").Raw())
	want(arrived(c.ID, "POST /api/v1/a", "x"), none)
	once := c.Request("POST", "/api/v1/a", "x").Raw()
	send(t, once+once)
	send(t, once)
	for _, r := range []*Received{arrived(c.ID, "POST /api/v1/b", "x"), arrived(c.ID, "PUT /api/v1/a", "x"), arrived(c.ID, "POST /api/v1/a", "y"), arrived(c.ID, "POST /api/v1/a?", "x")} {
		want(r, none)
	}
	want(arrived(c.ID, "POST /api/v1/a", "x"), "")
	want(arrived(c.ID, "POST /api/v1/a", "x"), none)
	send(t, c.Request("GET", "/api/v1/Card/1/sensitive?a", "").Raw())
	want(arrived(c.ID, "GET /api/v1/cards/1/sensitive?a", ""), "")
	want(arrived("ck_test_nobody", "GET /api/v1/a", ""), "no test has made the key")
	want(&Received{Line: "GET /api/v1/a HTTP/1.1"}, "0 key ids")
	asserted := arrived(c.ID, "GET /api/v1/a", "")
	asserted.Headers = append(asserted.Headers, "X-Gateway-Assertion: e30.e30.e30")
	send(t, c.Request("GET", "/api/v1/a", "").Raw())
	want(asserted, "its assertion")
	asserted.Headers = asserted.Headers[:2]
	want(asserted, "")
}
