package ops

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A restartable is an issuer that stops like a server of net/http: requests that
// have begun are answered.
type restartable struct {
	addr   string
	server *http.Server
	seen   *sync.Map // by path: how often
}

func (i *restartable) start(t *testing.T) {
	t.Helper()
	var listener net.Listener
	harness.Eventually(t, "the issuer's address is free", func() bool {
		var err error
		listener, err = net.Listen("tcp", i.addr)
		return err == nil
	})
	i.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count, _ := i.seen.LoadOrStore(r.URL.Path, new(atomic.Int64))
		count.(*atomic.Int64).Add(1)
		_, _ = w.Write([]byte(`{"ok":true}`))
	})}
	go i.server.Serve(listener) //nolint:errcheck // it ends by Shutdown
}

// TestIssuersRestartUnderLoad restarts two issuers in turn while clients send.
// A request fails only if it was on its way on a connection of the stopping
// issuer, and none arrives twice.
func TestIssuersRestartUnderLoad(t *testing.T) {
	t.Parallel()
	var seen sync.Map
	issuers := []*restartable{{addr: harness.FreeAddress(t), seen: &seen}, {addr: harness.FreeAddress(t), seen: &seen}}
	for _, i := range issuers {
		i.start(t)
		t.Cleanup(func() { _ = i.server.Close() })
	}
	g := harness.StartGateway(t, harness.Site{Upstream: issuers[0].addr + " " + issuers[1].addr})
	key := g.NewKey(nil)
	var failed atomic.Int64
	load := harness.StartLoad(4, func(_ int, number int64) {
		answer, err := g.Try(key.Request(http.MethodPost, fmt.Sprintf("/api/v1/orders/%d", number), `{"a":1}`))
		switch {
		case err != nil:
			t.Error(err)
		case answer.Status == http.StatusBadGateway:
			failed.Add(1)
		default:
			harness.WantAccepted(t, answer)
		}
	})
	defer load.Stop()
	for range 2 {
		for _, i := range issuers {
			if err := i.server.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			i.start(t)
			before := load.Sent()
			harness.Eventually(t, "the clients go on", func() bool { return load.Sent() > before+20 })
		}
	}
	load.Stop()
	onTheWay := int64(strings.Count(g.ReadFile("default.log"), `"detail":"closed: issuer `))
	if n := failed.Load(); n != onTheWay {
		t.Errorf("%d requests failed, of which %d were on their way to a dying issuer", n, onTheWay)
	}
	seen.Range(func(path, count any) bool {
		if n := count.(*atomic.Int64).Load(); n != 1 {
			t.Errorf("%s reached the issuers %d times", path, n)
		}
		return true
	})
	t.Logf("4 restarts, %d requests, %d failed on their way to a dying issuer", load.Sent(), onTheWay)
}
