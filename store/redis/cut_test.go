package redis

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/harness"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// A master whose replicas do not answer is not used, whatever its own
// min-replicas-max-lag is, because another master may have replaced it. When
// they answer again, requests are accepted, and nothing was lost.
func TestMasterWithoutAcknowledgements(t *testing.T) {
	t.Parallel()
	for name, config := range map[string][]string{
		"a lag that is too long": {"--min-replicas-to-write", "1", "--min-replicas-max-lag", "30"},
		"the documented lag":     harness.WithReplicas,
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
				return err != nil && (strings.Contains(err.Error(), "no replica has answered") || strings.Contains(err.Error(), "NOREPLICAS"))
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

// A gateway does not start with a master that has replicas and goes on without enough of
// them, be it the setting of the master or of a replica. One that runs is degraded, and
// ready. Where the setting cannot be read, it starts only if that is accepted.
func TestTwoMastersAreRefused(t *testing.T) {
	t.Parallel()
	master, replica := redistest.MasterAndReplica(t, harness.WithReplicas...)
	for _, p := range []*redistest.Process{master, replica} {
		for _, user := range []string{"gateway", "blind"} {
			args := []any{"acl", "setuser", user}
			for _, a := range aclRule(t) {
				args = append(args, a)
			}
			p.Do(t, args...)
		}
		p.Do(t, "acl", "setuser", "blind", "-config|get")
	}
	options := func(user string) Options {
		return Options{Options: rpc.Options{URL: master.URL(), Username: user, Password: "secret", IOTimeout: time.Second}}
	}
	start := func(opt Options) error {
		s, err := New(patient(opt))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Start(ctx)
	}
	var clock atomic.Int64
	opt := options("gateway")
	opt.now = func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
	running := open(t, opt)
	degraded := func(what string) bool {
		return strings.Contains(fmt.Sprint(running.Status(ctx).Details.Degraded), what)
	}
	for i, unfit := range []struct {
		of       *redistest.Process
		setting  string
		value, n int
	}{{master, "min-replicas-to-write", 0, 1}, {replica, "min-replicas-to-write", 0, 1}, {master, "min-replicas-max-lag", 0, 3}} {
		unfit.of.Do(t, "config", "set", unfit.setting, unfit.value)
		if err := start(options("gateway")); err == nil || !strings.Contains(err.Error(), "min-replicas-to-write is 0 at "+unfit.of.Addr) {
			t.Errorf("%s %d at %s: %v", unfit.setting, unfit.value, unfit.of.Addr, err)
		}
		clock.Store(int64(i+1) * int64(time.Hour))
		_ = check(running) // an hour has passed; but such a clock differs too much
		clock.Store(0)
		if err := check(running); err != nil || !degraded("two masters may accept") {
			t.Errorf("a running gateway: %v, degraded by %q", err, running.Status(ctx).Details.Degraded)
		}
		unfit.of.Do(t, "config", "set", unfit.setting, unfit.n)
	}
	if err := start(options("gateway")); err != nil {
		t.Errorf("with the documented settings: %v", err)
	}
	if err := start(options("blind")); err == nil || !strings.Contains(err.Error(), "accept_replicas_unverified") {
		t.Errorf("a user that may not read the settings: %v", err)
	}
	accepting := options("blind")
	accepting.AcceptReplicasUnverified = true
	s := open(t, accepting)
	if d := s.Status(ctx).Details; !strings.Contains(fmt.Sprint(d.Degraded), "may not read min-replicas-to-write") {
		t.Errorf("it is accepted, and not degraded: %+v", d)
	}
}

// The log warns if replay_floor_ahead is shorter than the time for which a
// master that is cut off may go on.
func TestWarningOfShortFloor(t *testing.T) {
	t.Parallel()
	master, _ := redistest.MasterAndReplica(t, harness.WithReplicas...)
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
