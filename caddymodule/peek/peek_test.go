package peek

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() { caddy.RegisterModule(new(peeker)) }

// A peeker is an app that peeks while it is provisioned, as the gateway does.
type peeker struct {
	Want string `json:"want"`
}

var peeked struct {
	admin *caddy.AdminConfig
	known bool
}

func (*peeker) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "card_peeker", New: func() caddy.Module { return new(peeker) }}
}

func (*peeker) Provision(ctx caddy.Context) error {
	peeked.admin, peeked.known = Admin(ctx)
	return nil
}

func (*peeker) Start() error { return nil }
func (*peeker) Stop() error  { return nil }

func TestAdmin(t *testing.T) {
	for text, want := range map[string]*caddy.AdminConfig{
		`{"admin":{"disabled":true},"apps":{"card_peeker":{}}}`:             {Disabled: true},
		`{"admin":{"listen":"unix//run/a.sock"},"apps":{"card_peeker":{}}}`: {Listen: "unix//run/a.sock"},
		`{"apps":{"card_peeker":{}}}`:                                       nil,
	} {
		var config caddy.Config
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(&config); err != nil {
			t.Fatal(err)
		}
		got := peeked.admin
		if !peeked.known || (got == nil) != (want == nil) || got != nil && (got.Listen != want.Listen || got.Disabled != want.Disabled) {
			t.Errorf("%s: %+v, known %t; want %+v", text, got, peeked.known, want)
		}
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	if admin, known := Admin(ctx); admin != nil || !known {
		t.Errorf("without a configuration: %+v, known %t", admin, known)
	}
}

func TestTrustedProxies(t *testing.T) {
	for proxies, want := range map[string]int{"": -1, `,"trusted_proxies":{"source":"static","ranges":["192.0.2.1","10.0.0.0/8"]}`: 2} {
		text := `{"admin":{"disabled":true},"apps":{"http":{"servers":{"s":{"listen":["unix//tmp/none"]` + proxies +
			`,"routes":[{"handle":[{"handler":"card_peeker"}]}]}}}}}`
		var config caddy.Config
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(&config); err != nil {
			t.Fatal(err)
		}
		trusts, fixed, known := handlerPeeked.trusts, handlerPeeked.fixed, handlerPeeked.known
		if !known || trusts != (want >= 0) || len(fixed) != max(want, 0) {
			t.Errorf("%s: trusts %t %v, known %t", proxies, trusts, fixed, known)
		}
	}
}

func TestSocket(t *testing.T) {
	address, err := caddy.ParseNetworkAddress("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	made, err := address.Listen(t.Context(), 0, net.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	listener := tls.NewListener(made.(net.Listener), new(tls.Config))
	defer listener.Close()
	if Socket(listener) == nil {
		t.Error("no socket is found below the listeners of Caddy and crypto/tls")
	}
	if Socket(nil) != nil {
		t.Error("no listener has a socket")
	}
}

// wrapped is a connection as the wrappers of listeners make it.
type wrapped struct{ net.Conn }

// rawConn has its connection as go-proxyproto's has it.
type rawConn struct {
	net.Conn
	raw net.Conn
}

func (c rawConn) Raw() net.Conn { return c.raw }

func TestConnection(t *testing.T) {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	inner := socket.(net.Conn)
	for name, conn := range map[string]net.Conn{
		"bare": inner, "wrapped": wrapped{inner}, "TLS": tls.Server(wrapped{inner}, nil), "PROXY": wrapped{rawConn{raw: inner}},
	} {
		if Connection(conn) == nil {
			t.Errorf("%s: no socket is found", name)
		}
	}
	if end, _ := net.Pipe(); Connection(nil) != nil || Connection(wrapped{end}) != nil {
		t.Error("a pipe has a socket")
	}
}

var handlerPeeked struct {
	trusts bool
	fixed  []any
	known  bool
}

func init() { caddy.RegisterModule(new(peekingHandler)) }

// A peekingHandler peeks at its server while it is provisioned.
type peekingHandler struct{ caddyhttp.Subroute }

func (*peekingHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_peeker", New: func() caddy.Module { return new(peekingHandler) }}
}

func (*peekingHandler) Provision(ctx caddy.Context) error {
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	trusts, fixed, known := TrustedProxies(server)
	handlerPeeked.trusts, handlerPeeked.known, handlerPeeked.fixed = trusts, known, nil
	for _, prefix := range fixed {
		handlerPeeked.fixed = append(handlerPeeked.fixed, prefix)
	}
	return nil
}
