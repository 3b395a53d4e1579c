package node

import (
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/sys/unix"

	"github.com/card-gateway/card-gateway/caddymodule/peek"
)

// Caddy opens a socket for each configuration, and the sockets of one address
// share its new connections. When the old socket closes, connections that wait
// there are reset, and connections that its server has just accepted are dropped.
// So during a drain the kernel gives all new connections to the new socket, while
// the old one still listens.

// preferNewest makes the kernel give each new connection to the newer of two
// sockets on an address. With one socket nothing changes, because the kernel
// ignores the number of a socket that does not exist.
func preferNewest(fd int) error {
	second := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: 1, Filter: &second})
}

// leaveToKernel undoes preferNewest.
func leaveToKernel(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_REUSEPORT_BPF, 0)
}

// steer calls a function with each socket on which the running configuration
// accepts HTTP over TCP. It ignores errors: then the kernel still chooses among
// all sockets.
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
			if raw := peek.Socket(listener); raw != nil {
				_ = raw.Control(func(fd uintptr) { _ = choose(int(fd)) })
			}
		}
	}
}

// listenPlainTCP makes Go listen without Multipath TCP, because such sockets do
// not support the option of preferNewest. It keeps a value in the environment.
func listenPlainTCP() {
	set := os.Getenv("GODEBUG")
	if strings.Contains(set, "multipathtcp=") {
		return
	}
	_ = os.Setenv("GODEBUG", strings.TrimPrefix(set+",multipathtcp=0", ","))
}
