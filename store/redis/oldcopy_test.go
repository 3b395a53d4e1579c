package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// oldCopies are the ways in which an older copy of a key's record, or a new record,
// takes the place of the one that knows of the nonces. Each gets the record's dump, and
// returns the record that is stored afterwards.
var oldCopies = map[string]func(t *testing.T, s *Store, r *store.Record, dump string) *store.Record{
	"put back": func(t *testing.T, s *Store, r *store.Record, dump string) *store.Record {
		restore(t, s, r.ID, dump)
		return r
	},
	"put back after DEL": func(t *testing.T, s *Store, r *store.Record, dump string) *store.Record {
		remove(t, s, r.ID)
		restore(t, s, r.ID, dump)
		return r
	},
	"imported again after DEL": func(t *testing.T, s *Store, r *store.Record, _ string) *store.Record {
		remove(t, s, r.ID)
		return importAgain(t, s, r)
	},
	"of a wrong type, deleted and imported again": func(t *testing.T, s *Store, r *store.Record, _ string) *store.Record {
		if err := s.client.Set(ctx, s.names.record(r.ID), "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Delete(ctx, r.ID, ""); err != nil {
			t.Fatal(err)
		}
		return importAgain(t, s, r)
	},
}

func restore(t *testing.T, s *Store, id, dump string) {
	t.Helper()
	if err := s.client.RestoreReplace(ctx, s.names.record(id), 0, dump).Err(); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, s *Store, id string) {
	t.Helper()
	if err := s.client.Del(ctx, s.names.record(id)).Err(); err != nil {
		t.Fatal(err)
	}
}

func importAgain(t *testing.T, s *Store, r *store.Record) *store.Record {
	t.Helper()
	r = r.Clone()
	r.Revision = random()
	put(t, s, r)
	return r
}

// at returns the claim of a new request that arrives at now and is stamped offset
// seconds later.
func at(r *store.Record, now time.Time, window time.Duration, offset int64) *store.Claim {
	c := newClaim(r)
	c.Now, c.Window, c.Timestamp = now, window, now.Unix()+offset
	return c
}

// A record is put back that is 150 s older than ten accepted requests. None of them
// is accepted again, and new requests are accepted.
func TestOldRecordKnowsNoNonces(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, s *Store) {
		for name, change := range oldCopies {
			for i := range 20 { // the edges of the spans are elsewhere each time
				r, now := newKey(t, s), time.Now().Add(time.Duration(i)*7*time.Second)
				expect(t, s, at(r, now, 2*time.Second, 0), auth.Accepted)
				dump := s.client.Dump(ctx, s.names.record(r.ID)).Val()
				nonces := s.names.nonces(r.ID, hashOf(t, s, r))
				dumpOfNonces := s.client.Dump(ctx, nonces).Val()
				now = now.Add(150 * time.Second)
				var accepted []*store.Claim
				for range 10 {
					c := at(r, now, 2*time.Second, 0)
					expect(t, s, c, auth.Accepted)
					accepted = append(accepted, c)
				}
				if i%2 == 1 { // all keys are put back
					s.client.RestoreReplace(ctx, nonces, 0, dumpOfNonces)
				}
				r = change(t, s, r, dump)
				for n, c := range accepted {
					c.Revision = r.Revision
					if v, err := s.Settle(ctx, c); err != nil || v.Reason != auth.ReplayedNonce {
						t.Fatalf("%s, for the %d. time: request %d: %v, %v; want a replay", name, i+1, n, v.Reason, err)
					}
				}
			}
		}
	})
}

// eachTopology runs the test on one server, Sentinel and a cluster, with the clock of
// the claims.
func eachTopology(t *testing.T, test func(t *testing.T, s *Store)) {
	for topology, options := range map[string]func(t testing.TB) Options{
		"single": single,
		"sentinel": func(t testing.TB) Options {
			return Options{Options: rpc.Options{SentinelMaster: "gw", SentinelAddrs: redistest.Addrs(redistest.SharedSentinel(t).Sentinels)}, Prefix: random() + ":"}
		},
		"cluster": func(t testing.TB) Options {
			return Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(redistest.SharedCluster(t))}, Prefix: random() + ":"}
		},
	} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			s := open(t, options(t))
			s.settling = byClaim(t, settleScript)
			test(t, s)
		})
	}
}

// A history of one key: requests before and after a copy of its record was made.
type oldCopyTrial struct {
	name     string
	age      time.Duration // of the copy, when it is put back
	windows  []time.Duration
	now      time.Time
	accepted []*store.Claim
}

func (o *oldCopyTrial) String() string {
	return fmt.Sprintf("a copy of %v, windows %v, %s", o.age, o.windows, o.name)
}

// Copies of any age are put back, with gateways of one window or of two. No request
// that was accepted is accepted again, at any later moment and by any of the
// gateways. A new request, stamped after the floor if there is one, is accepted.
func TestOldRecordsOfAnyAge(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, s *Store) {
		for name, change := range oldCopies {
			for range 60 {
				o := &oldCopyTrial{name: name, age: time.Duration(1+rand.IntN(700)) * time.Second, now: time.Now()}
				o.windows = [][]time.Duration{{2 * time.Second}, {5 * time.Minute}, {5 * time.Minute, 2 * time.Second}}[rand.IntN(3)]
				o.run(t, s, change)
			}
		}
	})
}

func (o *oldCopyTrial) run(t *testing.T, s *Store, change func(*testing.T, *Store, *store.Record, string) *store.Record) {
	s.windows.wider.Store(nil) // what the trial before has taught
	r := newKey(t, s)
	if len(o.windows) > 1 { // the copy knows of both: it is no older than the change of the window
		o.age = min(o.age, windowLinger/2)
		expect(t, s, at(r, o.now, o.windows[0], 0), auth.Accepted)
	}
	for range rand.IntN(4) {
		o.settleNew(t, s, r)
		o.now = o.now.Add(time.Duration(rand.IntN(5)) * time.Second)
	}
	dump := s.client.Dump(ctx, s.names.record(r.ID)).Val()
	copied := o.now
	for range 1 + rand.IntN(10) {
		o.now = copied.Add(time.Duration(rand.Int64N(int64(o.age))))
		if last := len(o.accepted) - 1; last >= 0 && o.now.Before(o.accepted[last].Now) {
			o.now = o.accepted[last].Now
		}
		o.settleNew(t, s, r)
	}
	o.now = copied.Add(o.age)
	r = change(t, s, r, dump)
	for range 30 {
		o.replayAll(t, s, r)
		o.now = o.now.Add(time.Duration(rand.IntN(20_000)) * time.Millisecond)
		fresh := at(r, o.now, o.windows[0], 0)
		fresh.ReplayFloorAhead = -time.Hour
		if v, err := s.Settle(ctx, fresh); err != nil || v.Reason != auth.Accepted {
			t.Fatalf("%v: a new request: %+v, %v", o, v, err)
		}
	}
}

func (o *oldCopyTrial) window() time.Duration { return o.windows[rand.IntN(len(o.windows))] }

func (o *oldCopyTrial) settleNew(t *testing.T, s *Store, r *store.Record) {
	window := o.window()
	most := int64(window / time.Second)
	c := at(r, o.now, window, rand.Int64N(2*most+1)-most)
	v, err := s.Settle(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if v.Reason == auth.Accepted {
		o.accepted = append(o.accepted, c)
	}
}

func (o *oldCopyTrial) replayAll(t *testing.T, s *Store, r *store.Record) {
	for _, i := range rand.Perm(len(o.accepted)) {
		c := *o.accepted[i]
		c.Now, c.NextRevision, c.Revision, c.Window = o.now, random(), r.Revision, o.window()
		v, err := s.Settle(ctx, &c)
		if err != nil || v.Stale || v.Reason == auth.Accepted {
			t.Fatalf("%v: accepted %v after the record was copied, stamped %+d s, window %v, and again %v later with window %v: %+v, %v", o,
				o.accepted[i].Now.Sub(o.accepted[0].Now), o.accepted[i].Timestamp-o.accepted[i].Now.Unix(), o.accepted[i].Window, o.now.Sub(o.accepted[i].Now), c.Window, v, err)
		}
	}
}

// A key has a replay floor of its own, or what was noted of its nonces is lost, and the
// key is deleted and imported again. The floor stays, and goes when no request that it
// forbids can be inside any window.
func TestDeleteKeepsTheFloor(t *testing.T) {
	s := open(t, single(t))
	for name, change := range map[string]func(id string){
		"used":               func(string) {},
		"an older copy":      func(id string) { s.client.HDel(ctx, s.names.record(id), "hi", "spans", "window") },
		"a note is damaged":  func(id string) { s.client.HSet(ctx, s.names.record(id), "hi", "x") },
		"a floor is damaged": func(id string) { s.client.HSet(ctx, s.names.record(id), "floor", "x") },
		"of a wrong type":    func(id string) { s.client.Set(ctx, s.names.record(id), "x", 0) },
	} {
		r := newKey(t, s)
		c := newClaim(r)
		expect(t, s, c, auth.Accepted)
		setField(t, s, r.ID, "floor", fmt.Sprint(time.Now().UnixMicro()))
		if err := s.client.Del(ctx, s.names.nonces(r.ID, (time.Now().UnixMilli()+311_000)/spanMillis)).Err(); err != nil {
			t.Fatal(err)
		}
		change(r.ID)
		if _, err := s.Delete(ctx, r.ID, ""); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if left := s.client.PTTL(ctx, s.names.record(r.ID)).Val(); left < MaxWindow || left > 24*time.Hour+3*MaxWindow {
			t.Errorf("%s: the floor is kept for %v", name, left)
		}
		r = importAgain(t, s, r)
		c.Revision = r.Revision
		expectNotAgain(t, s, c)
		expect(t, s, ahead(newClaim(r), 10), auth.Accepted)
	}
}

// A record is put back together with a floor: what was there may have known of a loss.
func TestRestoreRaisesTheFloor(t *testing.T) {
	s := open(t, single(t))
	for _, lost := range []string{"nothing", "a floor", "a wrong type"} {
		r := newKey(t, s)
		c := newClaim(r)
		expect(t, s, c, auth.Accepted)
		remaining := []string{s.names.nonces(r.ID, hashOf(t, s, r))}
		expect := r.Revision
		switch lost {
		case "a floor":
			remaining = append(remaining, s.names.record(r.ID))
			expect = ""
		case "a wrong type":
			s.client.Set(ctx, s.names.record(r.ID), "x", 0)
			expect = ""
		}
		if err := s.client.Del(ctx, remaining...).Err(); err != nil {
			t.Fatal(err)
		}
		r.Revision = random()
		if _, err := s.Put(ctx, r, store.PutOptions{Expect: expect, Restore: true}); err != nil {
			t.Fatalf("%s: %v", lost, err)
		}
		c.Revision = r.Revision
		if v, err := s.Settle(ctx, again(c)); err != nil || v.Reason != auth.ReplayFloor {
			t.Errorf("%s: %+v, %v; want the replay floor", lost, v, err)
		}
		if v, err := s.Settle(ctx, ahead(newClaim(r), 10)); err != nil || v.Reason != auth.Accepted {
			t.Errorf("%s: a new request: %+v, %v", lost, v, err)
		}
	}
}

// A window was wide and is narrow again, and the copy is from before. The nonces of the
// wide one end later than a nonce of the narrow one would, and are read nevertheless.
func TestOldRecordKnewOfAWiderWindow(t *testing.T) {
	t.Parallel()
	eachTopology(t, func(t *testing.T, s *Store) {
		r, now := newKey(t, s), time.Now()
		expect(t, s, at(r, now, 10*time.Minute, 590), auth.Accepted) // its nonce outlives the copy
		dump := s.client.Dump(ctx, s.names.record(r.ID)).Val()
		c := at(r, now.Add(5*time.Minute), 10*time.Minute, 590)
		expect(t, s, c, auth.Accepted)
		s.windows.wider.Store(nil)
		restore(t, s, r.ID, dump)
		narrow := *c
		narrow.Now, narrow.Window = time.Unix(c.Timestamp, 0), 2*time.Second
		if v, err := s.Settle(ctx, &narrow); err != nil || v.Reason != auth.ReplayedNonce {
			t.Errorf("%v, %v; want a replay", v.Reason, err)
		}
	})
}
