package node

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/peek"
	"github.com/card-gateway/card-gateway/platform"
)

var errOtherProcess = errors.New("another process listens there")

// AdminSocketOf returns the path of the admin socket of a configuration, empty if
// its admin endpoint is off or no unix socket.
func AdminSocketOf(ctx caddy.Context) string {
	admin, _ := peek.Admin(ctx)
	if admin == nil || admin.Disabled {
		return ""
	}
	address, err := caddy.NewReplacer().ReplaceOrErr(cmp.Or(admin.Listen, caddy.DefaultAdminListen), true, true)
	if err != nil {
		return ""
	}
	place, err := caddy.ParseNetworkAddress(address)
	if err != nil || place.Network != "unix" {
		return ""
	}
	path, _, _ := strings.Cut(place.Host, "|") // behind it are the permissions
	return path
}

// CheckAdminSocket finds out whether calls to the admin socket still reach this
// process, and logs when that begins to fail. Any Caddy that starts with the same
// admin endpoint removes the socket and opens its own.
func CheckAdminSocket(ctx context.Context, path string, log *zap.Logger) {
	var err error
	if path != "" {
		err = reachesUs(ctx, path)
	}
	if before := Process.AdminLost.Swap(err != nil); err != nil && !before {
		log.Warn("another process has taken the admin socket, or it was removed: card-keys and a reload do not reach this gateway; restart it", zap.String("socket", path), zap.Error(err))
	}
}

// reachesUs returns an error if nobody or another process listens on a socket. A
// socket that cannot be tested is not reported.
func reachesUs(ctx context.Context, path string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return err
	case err != nil:
		return nil
	}
	defer conn.Close()
	if socket, ok := conn.(*net.UnixConn); ok && platform.OfAnotherProcess(socket) {
		return errOtherProcess
	}
	return nil
}
