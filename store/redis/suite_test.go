package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/store/storetest"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

var ctx = context.Background()

// patient returns the options with timeouts that are long enough for a busy
// machine, unless the test has set its own. Those of the gateway are short.
func patient(opt Options) Options {
	opt.IOTimeout = cmp.Or(opt.IOTimeout, 2*time.Second)
	opt.SettleTimeout = cmp.Or(opt.SettleTimeout, 4*time.Second)
	opt.ChangeTimeout = cmp.Or(opt.ChangeTimeout, 8*time.Second)
	return opt
}

// open makes a started store, patient by default, and closes it with the test.
func open(t testing.TB, opt Options) *Store {
	t.Helper()
	s, err := New(patient(opt))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// check checks the servers and reads the floors of other gateways.
func check(s *Store) error { return s.servers.CheckAgain(ctx, s.servers.View()) }

// shared is the name of the hash that package masters keeps.
func (n names) shared() string { return n.prefix + "servers" }

func TestMain(m *testing.M) { redistest.Main(m) }

func random() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// single are options for the shared server under a prefix of its own.
func single(t testing.TB) Options {
	return Options{Options: rpc.Options{URL: redistest.SharedSingle(t).URL()}, Prefix: random() + ":"}
}

// byClaim returns the script with the time of the caller in place of the
// server's clock, except for the beat.
func byClaim(t testing.TB, of *rpc.Script) *rpc.Script {
	t.Helper()
	const reads, claims = "local now = time\n", "local now = claim_now\n"
	if strings.Count(of.Source, reads) != 1 {
		t.Fatalf("the script must read the clock in one place, by %q:\n%s", reads, of.Source)
	}
	return rpc.NewScript(strings.Replace(of.Source, reads, claims, 1))
}

// suite opens stores for the suite, whose clock is the claims'.
func suite(options func(t testing.TB) Options) storetest.Factory {
	return func(t testing.TB) *storetest.Setup {
		opt := options(t)
		opt.IOTimeout, opt.SettleTimeout, opt.ChangeTimeout = 10*time.Second, 20*time.Second, 40*time.Second // time is not under test
		var mu sync.Mutex
		now := time.Now() // stands still unless it is advanced
		openByClaim := func(t testing.TB) *Store {
			s := open(t, opt)
			s.settling, s.levels = byClaim(t, settleScript), byClaim(t, levelsScript)
			return s
		}
		setup := &storetest.Setup{
			Backend: openByClaim(t),
			Now: func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				return now
			},
			Advance: func(d time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				now = now.Add(d)
			},
			ClaimClock: true,
		}
		setup.RaiseFloor = func(t testing.TB, to time.Time) {
			s := setup.Backend.(*Store)
			err := s.client.HSet(ctx, s.names.shared(), "floor", to.UnixMicro()).Err()
			if err == nil {
				err = check(s) // reads it as a floor of another gateway
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		setup.Damage = damages(setup.Backend.(*Store))
		setup.Reopen = func(t testing.TB, how storetest.Ending) store.Backend {
			if how == storetest.Closed {
				if err := setup.Backend.Close(); err != nil {
					t.Fatal(err)
				}
			}
			setup.Backend = openByClaim(t)
			return setup.Backend
		}
		return setup
	}
}

func TestSingle(t *testing.T) { storetest.Run(t, suite(single)) }

func TestCluster(t *testing.T) {
	t.Parallel()
	storetest.Run(t, suite(func(t testing.TB) Options {
		return Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(redistest.SharedCluster(t))}, Prefix: random() + ":"}
	}))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	storetest.Run(t, suite(func(t testing.TB) Options {
		return Options{Options: rpc.Options{SentinelMaster: "gw", SentinelAddrs: redistest.Addrs(redistest.SharedSentinel(t).Sentinels)}, Prefix: random() + ":"}
	}))
}
