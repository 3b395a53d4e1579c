package redis

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// If no sentinel answers and the master has closed its connections but works,
// requests are accepted.
func TestNoSentinelAnswers(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]os.Signal{"killed": syscall.SIGKILL, "silent": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			set := redistest.OwnSentinel(t)
			s := open(t, Options{Options: rpc.Options{SentinelMaster: "gw", SentinelAddrs: redistest.Addrs(set.Sentinels), IOTimeout: 500 * time.Millisecond}})
			r := newKey(t, s)
			flows(t, s, r, 3*time.Second)
			for _, p := range set.Sentinels {
				p.Signal(t, signal)
			}
			for range 2 {
				set.Master.Do(t, "client", "kill", "type", "normal", "skipme", "yes")
				flows(t, s, r, 3*time.Second)
			}
			redistest.Eventually(t, 3*time.Second, "ready", func() bool { return s.Ready(ctx) == nil })
		})
	}
}
