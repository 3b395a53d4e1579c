package redis

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// swaps are the ways in which an older copy takes the place of the whole content of a
// server that goes on. copied makes the copy and returns the function that swaps it in.
var swaps = map[string]struct {
	topologies []string
	copied     func(t *testing.T, p *redistest.Process) (swap func())
}{
	"SWAPDB": {[]string{"single", "sentinel"}, func(t *testing.T, p *redistest.Process) func() {
		for _, name := range p.Do(t, "keys", "*").([]any) {
			p.Do(t, "copy", name, name, "db", 1, "replace")
		}
		return func() { p.Do(t, "swapdb", 0, 1) }
	}},
	"RESTORE": {[]string{"single", "sentinel", "cluster"}, func(t *testing.T, p *redistest.Process) func() {
		old := p.Dump(t)
		return func() {
			for name, value := range old {
				p.Do(t, "restore", name, 0, value, "replace")
			}
		}
	}},
	"DEBUG RELOAD": {[]string{"single"}, func(t *testing.T, p *redistest.Process) func() {
		p.Do(t, "save")
		return func() { p.Do(t, "debug", "reload", "nosave") }
	}},
}

// ownServers starts servers whose whole content a test may replace.
func ownServers(t *testing.T, topology string) ([]*redistest.Process, Options) {
	switch topology {
	case "single":
		p := redistest.Own(t, false, "--enable-debug-command", "yes")
		return []*redistest.Process{p}, Options{Options: rpc.Options{URL: p.URL()}}
	case "sentinel":
		set := redistest.OwnSentinel(t)
		return []*redistest.Process{set.Master}, Options{Options: rpc.Options{SentinelMaster: "gw", SentinelAddrs: redistest.Addrs(set.Sentinels)}}
	default:
		nodes := redistest.OwnCluster(t)
		return nodes, Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(nodes)}}
	}
}

// An older copy of everything takes the place of the content, with no moment of an
// empty store, twenty times in each way. No request is accepted again by a gateway that
// has seen one of those that the copy lacks, be it a request of its own or in a check, and
// none gets a 401. New requests are accepted.
func TestWholeOlderCopy(t *testing.T) {
	t.Parallel()
	for way, swap := range swaps {
		for _, topology := range swap.topologies {
			t.Run(way+", "+topology, func(t *testing.T) {
				t.Parallel()
				servers, opt := ownServers(t, topology)
				for range 20 {
					opt.Prefix = random() + ":" // a floor of its own
					accepting, settling, checking, started := open(t, opt), open(t, opt), open(t, opt), open(t, opt)
					r := newKey(t, accepting)
					acceptAhead(t, accepting, r)
					var in []func()
					for _, p := range servers {
						in = append(in, swap.copied(t, p))
					}
					time.Sleep(2 * time.Millisecond) // the beat counts half milliseconds
					var lost []*store.Claim
					for range 3 {
						lost = append(lost, ahead(newClaim(r), 4))
						expect(t, accepting, lost[len(lost)-1], auth.Accepted)
					}
					expect(t, settling, again(lost[0]), auth.ReplayedNonce)
					wantSeen(t, checking, accepting.servers.BeatOf(r.ID).Seen(), r)
					for _, put := range in {
						put()
					}
					for _, s := range []*Store{accepting, settling, checking} {
						for _, c := range lost {
							if v, err := s.Settle(ctx, again(c)); err != nil || v.Stale || v.Reason != auth.ReplayFloor {
								t.Fatalf("%+v, %v; want the replay floor", v, err)
							}
						}
					}
					// Once one gateway has noticed it, those know that have seen nothing.
					expect(t, started, again(lost[0]), auth.ReplayFloor)
					expect(t, started, ahead(newClaim(r), 20), auth.Accepted)
					redistest.Eventually(t, 20*time.Second, "the status has the replay floor", func() bool {
						return time.Since(accepting.Status(ctx).Details.ReplayFloor) < time.Minute
					})
					for _, s := range []*Store{accepting, settling, checking, started} {
						if err := s.Close(); err != nil {
							t.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// wantSeen waits until a gateway that settles nothing has seen the beat.
func wantSeen(t *testing.T, s *Store, at int64, r *store.Record) {
	t.Helper()
	redistest.Eventually(t, 20*time.Second, "a check has seen the beat", func() bool { return s.servers.BeatOf(r.ID).Seen() >= at })
}

// A loss that has a replay floor gets no second one: the content that lacks the latest
// beats is served as soon as that floor is over.
func TestOneLossOneFloor(t *testing.T) {
	t.Parallel()
	p := redistest.Own(t, false)
	a, b := pair(t, Options{Options: rpc.Options{URL: p.URL()}})
	r := newKey(t, a)
	expect(t, a, newClaim(r), auth.Accepted)
	p.Do(t, "save")
	expect(t, a, newClaim(r), auth.Accepted)
	expect(t, b, newClaim(r), auth.Accepted)
	p.Kill()
	p.Start(t)
	flows(t, a, r, 3*time.Second)
	flows(t, b, r, 3*time.Second)
	if at, _ := beatIn(t, a, r); at > a.servers.View().Highest() && floorIn(t, a, r) > a.servers.View().Highest() {
		t.Errorf("the beat has the floor %d, after that of the restart, %d", floorIn(t, a, r), a.servers.View().Highest())
	}
}

// A floor explains only what was lost before it. An older copy that comes later raises
// another.
func TestFloorOfBeforeExplainsNothing(t *testing.T) {
	t.Parallel()
	servers, opt := ownServers(t, "single")
	s := open(t, opt)
	r := newKey(t, s)
	if err := s.client.HSet(ctx, s.names.shared(), "floor", time.Now().Add(-time.Minute).UnixMicro()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := check(s); err != nil || s.servers.View().Highest() == 0 {
		t.Fatalf("%v, the floor is %d", err, s.servers.View().Highest())
	}
	expect(t, s, newClaim(r), auth.Accepted)
	swap := swaps["RESTORE"].copied(t, servers[0])
	time.Sleep(2 * time.Millisecond) // the beat counts half milliseconds
	lost := newClaim(r)
	expect(t, s, lost, auth.Accepted)
	swap()
	expect(t, s, again(lost), auth.ReplayFloor)
}

// A beat that nobody can have written opens nothing and stops nothing for good.
func TestDamagedBeat(t *testing.T) {
	for _, damaged := range []string{"", "x", "9000000000000000", "1 2", "-1", "9000000000000000 9000000000000000"} {
		t.Run(damaged, func(t *testing.T) {
			a, b := pair(t, single(t))
			r := newKey(t, a)
			lost := ahead(newClaim(r), 4)
			expect(t, a, lost, auth.Accepted)
			name := a.servers.BeatOf(r.ID).Key
			if err := a.client.Set(ctx, name, damaged, 0).Err(); err != nil {
				t.Fatal(err)
			}
			for _, s := range []*Store{a, b} {
				expectNotAgain(t, s, lost)
				expect(t, s, ahead(newClaim(r), 20), auth.Accepted)
			}
			if err := a.client.Del(ctx, name).Err(); err != nil {
				t.Fatal(err)
			}
			expectNotAgain(t, a, lost)
			expect(t, a, ahead(newClaim(r), 20), auth.Accepted)
		})
	}
}

// beatIn reads the beat and its floor as they are stored.
func beatIn(t testing.TB, s *Store, r *store.Record) (at, floor int64) {
	t.Helper()
	text, err := s.client.Get(ctx, s.servers.BeatOf(r.ID).Key).Result()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Sscan(text, &at, &floor)
	return at, floor
}

func floorIn(t testing.TB, s *Store, r *store.Record) int64 {
	_, floor := beatIn(t, s, r)
	return floor
}

// The beat rises with each request, to the server's time, and a clock that goes back does
// not take it back.
func TestBeatRises(t *testing.T) {
	s := open(t, single(t))
	r := newKey(t, s)
	var all []int64
	for i := range 20 {
		if i == 10 { // the server's clock was ahead
			s.client.Set(ctx, s.servers.BeatOf(r.ID).Key, fmt.Sprint(time.Now().Add(4*time.Second).UnixMicro()), 0)
		}
		time.Sleep(2 * time.Millisecond) // the beat counts half milliseconds
		expect(t, s, newClaim(r), auth.Accepted)
		at, _ := beatIn(t, s, r)
		all = append(all, at)
		if s.servers.BeatOf(r.ID).Seen() != at {
			t.Errorf("%d is stored, the gateway knows %d", at, s.servers.BeatOf(r.ID).Seen())
		}
	}
	if !slices.IsSorted(all) || len(slices.Compact(all)) != 20 {
		t.Errorf("the beats are %v", all)
	}
}
