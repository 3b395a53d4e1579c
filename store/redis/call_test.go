package redis

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// Errors in the requests of one key do not stop the other keys, whether the
// key's slot is half moved or its data is damaged.
func TestErrorsOfOneKey(t *testing.T) {
	for name, reply := range map[string]string{
		"TRYAGAIN":    "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
		"WRONGTYPE":   "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
		"user_script": "-ERR user_script:1: something broke\r\n",
		"OOM":         "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, redistest.SharedSingle(t))
			opt := Options{Options: rpc.Options{URL: p.URL(), PoolSize: 2}, Prefix: random() + ":"}
			other := open(t, opt)
			bad, good := newKey(t, other), newKey(t, other)
			s := open(t, impatient(opt))
			p.Set(redistest.Fault{Reply: reply, Only: bad.ID})
			failAlone(t, s, bad, name)
			if s.client.Breaker(rpc.TheServer).Open() {
				t.Error("the breaker is open")
			}
			flows(t, s, good, 5*time.Second)
		})
	}
}

// manyFailures without a reply within half a second open a breaker.
const manyFailures = 5

// failAlone settles requests of a key for longer than it takes to open a
// breaker. All fail with the server's answer.
func failAlone(t *testing.T, s *Store, bad *store.Record, answer string) {
	t.Helper()
	var answered atomic.Int64
	var tasks sync.WaitGroup
	begun := time.Now()
	for range manyFailures {
		tasks.Go(func() {
			for answered.Load() < manyFailures || time.Since(begun) < time.Second {
				_, err := s.Settle(ctx, newClaim(bad))
				if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, rpc.ErrOpen) {
					t.Errorf("%v, want ErrUnavailable for what the server answers", err)
					return
				}
				if strings.Contains(err.Error(), answer) {
					answered.Add(1)
				}
			}
		})
	}
	tasks.Wait()
}

// If a server knows no script, not even one that was just sent, the script is
// sent a few times only.
func TestNoScript(t *testing.T) {
	p := redistest.NewProxy(t, redistest.SharedSingle(t))
	s := open(t, Options{Options: rpc.Options{URL: p.URL(), IOTimeout: time.Second}, Prefix: random() + ":", SettleTimeout: time.Second})
	r := newKey(t, s)
	expect(t, s, newClaim(r), auth.Accepted)
	p.Set(redistest.Fault{Reply: "-NOSCRIPT No matching script. Please use EVAL.\r\n", Only: r.ID})
	before := p.Count("eval")
	expectUnavailable(t, s, newClaim(r))
	if n := p.Count("eval") - before; n < 2 || n > 12 {
		t.Errorf("it was sent %d times within a second, want a few", n)
	}
}
