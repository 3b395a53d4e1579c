package redis

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
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
			p := newProxy(t, sharedSingle(t))
			opt := Options{URL: p.url(), Prefix: random() + ":", PoolSize: 2}
			other := open(t, opt)
			bad, good := newKey(t, other), newKey(t, other)
			s := open(t, impatient(opt))
			p.set(fault{reply: reply, only: bad.ID})
			failAlone(t, s, bad, name)
			if state := s.breakers.at(theServer).State(); state != gobreaker.StateClosed {
				t.Errorf("the breaker is %v", state)
			}
			flows(t, s, good, 5*time.Second)
		})
	}
}

// failAlone settles requests of a key for longer than it takes to open a
// breaker. All fail with the server's answer.
func failAlone(t *testing.T, s *Store, bad *store.Record, answer string) {
	t.Helper()
	var answered atomic.Int64
	var tasks sync.WaitGroup
	begun := time.Now()
	for range breakerFailures {
		tasks.Go(func() {
			for answered.Load() < breakerFailures || time.Since(begun) < 2*breakerSilence {
				_, err := s.Settle(ctx, newClaim(bad))
				if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, gobreaker.ErrOpenState) {
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
	p := newProxy(t, sharedSingle(t))
	s := open(t, Options{URL: p.url(), Prefix: random() + ":", IOTimeout: time.Second, SettleTimeout: time.Second})
	r := newKey(t, s)
	expect(t, s, newClaim(r), auth.Accepted)
	p.set(fault{reply: "-NOSCRIPT No matching script. Please use EVAL.\r\n", only: r.ID})
	before := p.count("eval")
	expectUnavailable(t, s, newClaim(r))
	if n := p.count("eval") - before; n < 2 || n > 12 {
		t.Errorf("it was sent %d times within a second, want a few", n)
	}
}
