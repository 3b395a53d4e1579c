package forward

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// echo starts a server that answers with the body of the request.
func echo(t *testing.T, addr string) (*http.Server, string) {
	t.Helper()
	var listener net.Listener
	eventually(t, "the address is free", func() bool {
		var err error
		listener, err = net.Listen("tcp", addr)
		return err == nil
	})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})}
	go server.Serve(listener) //nolint:errcheck // it ends by Shutdown
	return server, listener.Addr().String()
}

// TestRollingRestart restarts two issuers in turn, under load. A request fails
// only if it was already written on a connection that the stopping issuer
// closed.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	servers, addrs := [2]*http.Server{}, make([]string, 2)
	for i := range servers {
		servers[i], addrs[i] = echo(t, harness.FreeAddress(t))
	}
	f, _ := start(t, func(o *Options) { o.FailAfter = 3 }, addrs...)
	var stop atomic.Bool
	var clients sync.WaitGroup
	var sent [4]atomic.Int32
	for i := range sent {
		clients.Go(func() {
			for ; !stop.Load(); sent[i].Add(1) {
				if got := post(f, "ok"); got.err != nil && got.err.Kind != KindClosed || got.err == nil && got.body != "ok" {
					t.Errorf("%d %q, %v", got.status, got.body, got.err)
				}
			}
		})
	}
	for range 3 {
		for i, addr := range addrs {
			if err := servers[i].Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			servers[i], _ = echo(t, addr)
			for i := range sent { // until each client has begun a request after the restart
				before := sent[i].Load()
				eventually(t, "each client goes on", func() bool { return sent[i].Load() > before+1 })
			}
		}
	}
	stop.Store(true)
	clients.Wait()
	for _, s := range servers {
		_ = s.Close()
	}
}
