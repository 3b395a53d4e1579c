package redis

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// If no sentinel answers and the master has closed its connections but works,
// requests are accepted.
func TestNoSentinelAnswers(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]os.Signal{"killed": syscall.SIGKILL, "silent": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			set := ownSentinel(t)
			s := open(t, Options{SentinelMaster: "gw", SentinelAddrs: addrs(set.sentinels), IOTimeout: 500 * time.Millisecond})
			r := newKey(t, s)
			flows(t, s, r, 3*time.Second)
			for _, p := range set.sentinels {
				p.signal(t, signal)
			}
			for range 2 {
				set.master.do(t, "client", "kill", "type", "normal", "skipme", "yes")
				flows(t, s, r, 3*time.Second)
			}
			eventually(t, 3*time.Second, "ready", func() bool { return s.Ready(ctx) == nil })
		})
	}
}
