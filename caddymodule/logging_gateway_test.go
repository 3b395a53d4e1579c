package caddymodule

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/store"
)

// A canary is a text that an issuer sends and no log may contain.
const canary = "card 4111 1111 1111 1111 cvv CANARY"

// A loggingGateway writes all its logs, at the level debug, to two files in the
// format card. It is in front of an issuer whose answers the test sets.
type loggingGateway struct {
	dir    string
	client *http.Client
	signed *http.Client
	issuer net.Listener
}

func startLogging(t *testing.T) *loggingGateway {
	t.Helper()
	g := &loggingGateway{dir: t.TempDir()}
	var err error
	if g.issuer, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.issuer.Close() })
	if err := os.WriteFile(g.dir+"/key", []byte("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("DIR", g.dir, "ISSUER", g.issuer.Addr().String()).Replace(`{
		admin off
		persist_config off
		storage file_system DIR/caddy
		debug
		log {
			output file DIR/default.log
			format card
		}
		card_gateway {
			store file DIR/data
			master_key file DIR/key
		}
	}
	http://gateway.example {
		bind unix/DIR/socket
		log {
			output file DIR/access.log
			format card
		}
		handle /api/v1/* {
			card_auth
			reverse_proxy ISSUER
		}
		handle {
			reverse_proxy ISSUER
		}
	}`)
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	made, err := runningApp(t).state.keys.Create(t.Context(), keys.CreateRequest{Fields: store.Fields{Tenant: "acme", Scopes: []string{"*"}}}, keys.By{Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(g.dir, "socket"))
	}}
	t.Cleanup(base.CloseIdleConnections)
	g.client = &http.Client{Transport: base}
	g.signed = &http.Client{Transport: &sign.Transport{Signer: sign.Signer{KeyID: made.ID, Secret: made.Secret}, Base: base}}
	return g
}

func runningApp(t *testing.T) *App {
	t.Helper()
	app, err := caddy.ActiveContext().App("card_gateway")
	if err != nil {
		t.Fatal(err)
	}
	return app.(*App)
}

// answers serves one connection: each request gets the first bytes, and later,
// when the test allows it, the others.
func (g *loggingGateway) answers(t *testing.T, answer string, unasked <-chan string) {
	t.Helper()
	go func() {
		conn, err := g.issuer.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, answer)
		if more, ok := <-unasked; ok {
			_, _ = io.WriteString(conn, more)
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
}

func (g *loggingGateway) get(t *testing.T, client *http.Client, path string, header http.Header) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway.example"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer
}

// logs returns the text of all logs.
func (g *loggingGateway) logs(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"default.log", "access.log"} {
		text, err := os.ReadFile(filepath.Join(g.dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// logged waits until all texts are in the logs.
func (g *loggingGateway) logged(t *testing.T, want ...string) {
	t.Helper()
	deadline, limited := t.Deadline()
	for _, text := range want {
		for !strings.Contains(g.logs(t), text) {
			if limited && time.Until(deadline) < time.Second {
				t.Fatalf("%s is not in the logs:\n%s", text, g.logs(t))
			}
			time.Sleep(time.Millisecond)
		}
	}
	if text := g.logs(t); strings.Contains(text, "CANARY") || strings.Contains(text, "1111 1111") {
		for line := range strings.Lines(text) {
			if strings.Contains(line, "CANARY") || strings.Contains(line, "1111 1111") {
				t.Errorf("logged: %s", line)
			}
		}
	}
}
