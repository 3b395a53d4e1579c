package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// With the timeouts of a gateway, Settle returns within 250 ms, whatever the
// network does.
func TestAnswersInTime(t *testing.T) {
	silent := func(read bool) rpc.Dialer {
		return func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			if read {
				go func() { _, _ = io.Copy(io.Discard, server) }()
			}
			return client, nil
		}
	}
	for name, d := range map[string]rpc.Dialer{
		"no connection":         redistest.StuckDialer,
		"nobody reads":          silent(false),
		"nobody answers":        silent(true),
		"connections are ended": func(context.Context, string, string) (net.Conn, error) { c, s := net.Pipe(); s.Close(); return c, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := New(Options{Options: rpc.Options{URL: "redis://127.0.0.1:1", PoolSize: 2, Dialer: d}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				r := newRecord()
				var tasks sync.WaitGroup
				for range 2 * 2 * 64 { // more than may wait
					tasks.Go(func() {
						begun := time.Now()
						if _, err := s.Settle(t.Context(), newClaim(r)); !errors.Is(err, store.ErrUnavailable) {
							t.Errorf("%v, want ErrUnavailable", err)
						}
						if took := time.Since(begun); took > 250*time.Millisecond {
							t.Errorf("it took %v", took)
						}
					})
				}
				tasks.Wait()
			})
		})
	}
}
