package node

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestAdminSocketReachesUs: one that this process listens on does, one that is gone
// or that nobody listens on does not.
func TestAdminSocketReachesUs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := reachesUs(t.Context(), path); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("no socket: %v", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := reachesUs(t.Context(), path); err != nil {
		t.Errorf("our own socket: %v", err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := reachesUs(t.Context(), path); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a socket that nobody listens on: %v", err)
	}
}

// TestNoConfigurationHasNoAdminSocket: such as in a test.
func TestNoConfigurationHasNoAdminSocket(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	if path := AdminSocketOf(ctx); path != "" {
		t.Errorf("found %q", path)
	}
}
