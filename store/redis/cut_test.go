package redis

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// A master whose replicas do not answer is not used, whatever its own
// min-replicas-max-lag is, because another master may have replaced it. When
// they answer again, requests are accepted, and nothing was lost.
func TestMasterWithoutAcknowledgements(t *testing.T) {
	t.Parallel()
	for name, config := range map[string][]string{
		"a lag that is too long": {"--min-replicas-to-write", "1", "--min-replicas-max-lag", "30"},
		"without min-replicas":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, replica := redistest.MasterAndReplica(t, config...)
			s := open(t, Options{Options: rpc.Options{URL: master.URL(), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second})
			r := newKey(t, s)
			c := newClaim(r)
			expect(t, s, c, auth.Accepted)
			floor := s.servers.View().Highest()
			replica.Signal(t, syscall.SIGSTOP)
			t.Cleanup(func() { _ = replica.Cmd.Process.Signal(syscall.SIGCONT) })
			redistest.Eventually(t, 25*time.Second, "the master is not used", func() bool {
				_, err := s.Settle(ctx, newClaim(r))
				return err != nil && strings.Contains(err.Error(), "no replica has answered")
			})
			redistest.Eventually(t, 5*time.Second, "not ready", func() bool { return s.Ready(ctx) != nil })
			replica.Signal(t, syscall.SIGCONT)
			flows(t, s, r, 20*time.Second)
			redistest.Eventually(t, 5*time.Second, "ready", func() bool { return s.Ready(ctx) == nil })
			expect(t, s, again(c), auth.ReplayedNonce)
			if now := s.servers.View().Highest(); now != floor {
				t.Errorf("the floor rose to %v", rpc.Moment(now))
			}
		})
	}
}

// If masters can be replaced, the log warns of a master that would go on
// without replicas.
func TestWarningWithoutMinReplicas(t *testing.T) {
	t.Parallel()
	const warning = "goes on without its replicas"
	for config, want := range map[string]bool{"": true, "--min-replicas-to-write 1": false} {
		master, _ := redistest.MasterAndReplica(t, strings.Fields(config)...)
		s := open(t, Options{Options: rpc.Options{URL: master.URL()}})
		if got := strings.Contains(fmt.Sprint(s.Status(ctx).Details.Warnings), warning); got != want {
			t.Errorf("%q: warned %v, want %v", config, got, want)
		}
	}
}

// The log warns if replay_floor_ahead is shorter than the time for which a
// master that is cut off may go on.
func TestWarningOfShortFloor(t *testing.T) {
	t.Parallel()
	master, _ := redistest.MasterAndReplica(t)
	s := open(t, Options{Options: rpc.Options{URL: master.URL(), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second})
	r := newKey(t, s)
	for ahead, want := range map[time.Duration]bool{3 * time.Second: true, 5 * time.Second: false} {
		c := newClaim(r)
		c.ReplayFloorAhead = ahead
		expect(t, s, c, auth.Accepted)
		if got := strings.Contains(fmt.Sprint(s.Status(ctx).Details.Warnings), "replay_floor_ahead is"); got != want {
			t.Errorf("%v: warned %v, want %v", ahead, got, want)
		}
	}
}
