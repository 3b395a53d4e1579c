package redis

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// replicatedCluster starts three masters with a replica each; the replica of
// the i-th is the one at 3+i.
func replicatedCluster(t testing.TB) []*redistest.Process {
	t.Helper()
	nodes := redistest.OwnCluster(t)
	for range 3 {
		p := redistest.LaunchClusterNode(t)
		t.Cleanup(func() {
			if p.Client != nil {
				p.Kill()
			}
			_ = os.RemoveAll(p.Dir)
		})
		p.Meet(t, nodes[0])
		nodes = append(nodes, p)
	}
	for i := range 3 {
		redistest.Eventually(t, 20*time.Second, "the replica knows its master", func() bool {
			return nodes[3+i].Client.Do(ctx, "cluster", "replicate", nodes[i].ID(t)).Err() == nil
		})
	}
	for _, p := range nodes {
		redistest.Eventually(t, 20*time.Second, "all know each other", func() bool {
			list, err := p.Client.ClusterNodes(ctx).Result()
			return err == nil && strings.Count(list, " connected") == 6 && strings.Count(list, "slave ") == 3
		})
	}
	for i := range 3 {
		redistest.Eventually(t, 20*time.Second, "the replica follows", func() bool { return nodes[3+i].Follows(t) })
	}
	redistest.NeedReplicas(t, 1, nodes...)
	return nodes
}

// keyOn makes a key in the i-th third of the slots.
func keyOn(t testing.TB, s *Store, i int) *store.Record {
	t.Helper()
	r := newRecord()
	for redistest.Slot(r.ID) < i*redistest.Slots/3 || redistest.Slot(r.ID) >= (i+1)*redistest.Slots/3 {
		r = newRecord()
	}
	put(t, s, r)
	return r
}

// A stream sends correct requests for a key, one after the other, and notes
// those that were not accepted. At its end it repeats those that were.
type stream struct {
	stop    chan struct{}
	done    sync.WaitGroup
	refused map[string]int
	longest time.Duration // without an acceptance
	sent    []*store.Claim
	passed  atomic.Int64
}

func startStream(s *Store, r *store.Record) *stream {
	st := &stream{stop: make(chan struct{}), refused: make(map[string]int)}
	st.done.Go(func() {
		last := time.Now()
		for {
			select {
			case <-st.stop:
				return
			case <-time.After(5 * time.Millisecond): // load, not time
			}
			c := newClaim(r)
			v, err := s.Settle(ctx, c)
			switch {
			case err != nil:
				st.refused[err.Error()]++
			case v.Stale:
				st.refused["stale"]++
			case v.Reason != auth.Accepted:
				st.refused[v.Reason.String()]++
			default:
				st.longest = max(st.longest, time.Since(last))
				last = time.Now()
				st.sent = append(st.sent, c)
				st.passed.Add(1)
			}
		}
	})
	return st
}

// flowsOn waits until more requests are accepted.
func (st *stream) flowsOn(t testing.TB) {
	t.Helper()
	from := st.passed.Load()
	redistest.Eventually(t, 20*time.Second, "requests pass", func() bool { return st.passed.Load() > from+20 })
}

// end checks that no request is accepted twice, and that none was refused as a
// mistake of the client.
func (st *stream) end(t testing.TB, s *Store) {
	t.Helper()
	close(st.stop)
	st.done.Wait()
	for _, c := range st.sent {
		if v, err := s.Settle(ctx, again(c)); err != nil || v.Stale || v.Reason == auth.Accepted {
			t.Errorf("stamped %v, again: %+v, %v", time.Unix(c.Timestamp, 0), v, err)
		}
	}
	for reason := range st.refused {
		if reason == auth.RuleTimestamp.First().String() || reason == "stale" || reason == auth.ReplayedNonce.String() {
			t.Errorf("%d correct requests were refused with %s", st.refused[reason], reason)
		}
	}
	if len(st.sent) == 0 {
		t.Error("nothing was accepted; the test shows nothing")
	}
}
