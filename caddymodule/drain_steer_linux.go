package caddymodule

import (
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/sys/unix"
)

// Caddy opens a socket for each configuration, and sockets of one address share
// its new connections. What waits at the old socket when it closes is reset, and
// what its server has just accepted is dropped. So a drain has the kernel give
// new connections to the new socket alone, while the old one still listens.

// preferNewest makes the kernel give each new connection to the socket that
// began to listen last, of two on an address. Where there is one, nothing
// changes: the kernel ignores the number of a socket that does not exist.
func preferNewest(fd int) error {
	second := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: 1, Filter: &second})
}

// leaveToKernel undoes preferNewest.
func leaveToKernel(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_REUSEPORT_BPF, 0)
}

// steer calls a function with each socket on which the running configuration
// accepts HTTP over TCP. An error means that the kernel goes on to choose.
func steer(choose func(fd int) error) {
	module, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		return
	}
	app, ok := module.(*caddyhttp.App)
	if !ok {
		return
	}
	for _, server := range app.Servers {
		for _, listener := range server.Listeners() {
			if raw := rawListener(listener); raw != nil {
				_ = raw.Control(func(fd uintptr) { _ = choose(int(fd)) })
			}
		}
	}
}

// rawListener returns the TCP socket below the listeners of Caddy and
// crypto/tls, nil where there is none. Each of those embeds the next one, and
// has no method that returns it.
func rawListener(l net.Listener) syscall.RawConn {
	for l != nil {
		if tcp, ok := l.(*net.TCPListener); ok {
			raw, _ := tcp.SyscallConn()
			return raw
		}
		outer := reflect.Indirect(reflect.ValueOf(l))
		if outer.Kind() != reflect.Struct {
			return nil
		}
		inner := outer.FieldByName("Listener")
		if !inner.IsValid() || !inner.CanInterface() {
			return nil
		}
		l, _ = inner.Interface().(net.Listener)
	}
	return nil
}

// listenPlainTCP keeps Go from listening with Multipath TCP, whose sockets do
// not take the option of preferNewest. A value in the environment stays.
func listenPlainTCP() {
	set := os.Getenv("GODEBUG")
	if strings.Contains(set, "multipathtcp=") {
		return
	}
	_ = os.Setenv("GODEBUG", strings.TrimPrefix(set+",multipathtcp=0", ","))
}
