package redis

import (
	"fmt"
	"slices"
	"testing"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// changesAfter returns what the feed has after the mark, and the next mark.
func changesAfter(t testing.TB, s *Store, mark string) store.Changes {
	t.Helper()
	c, err := s.Changes(ctx, mark)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantChanges fails the test unless the feed has exactly these ids after the mark.
func wantChanges(t testing.TB, s *Store, mark string, ids ...string) string {
	t.Helper()
	c := changesAfter(t, s, mark)
	if c.Gap || !slices.Equal(c.IDs, ids) {
		t.Errorf("after %q: %+v, want %q", mark, c, ids)
	}
	return c.Mark
}

// update writes the record again.
func update(t testing.TB, s *Store, r *store.Record) {
	t.Helper()
	before := r.Revision
	r.Revision = random()
	if _, err := s.Put(ctx, r, store.PutOptions{Expect: before}); err != nil {
		t.Fatal(err)
	}
}

// Every gateway reads each change once, in order, from its own mark on. A change that
// was refused may be in the feed, too.
func TestChanges(t *testing.T) {
	for name, opt := range map[string]func() Options{
		"single": func() Options { return single(t) },
		"cluster": func() Options {
			return Options{Options: rpc.Options{ClusterAddrs: redistest.Addrs(redistest.SharedCluster(t))}, Prefix: random() + ":"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			opt := opt()
			a, b := open(t, opt), open(t, opt)
			first := changesAfter(t, b, "")
			if !first.Gap || first.Mark == "" || len(first.IDs) != 0 {
				t.Fatalf("%+v, want a gap and a mark", first)
			}
			r, other := newKey(t, a), newKey(t, a)
			mark := wantChanges(t, b, first.Mark, r.ID, other.ID)
			wantChanges(t, b, mark)
			update(t, a, r)
			if _, err := a.Delete(ctx, other.ID, ""); err != nil {
				t.Fatal(err)
			}
			mark = wantChanges(t, b, mark, r.ID, other.ID)
			late := changesAfter(t, a, "")
			update(t, b, r)
			wantChanges(t, a, late.Mark, r.ID)
			wantChanges(t, b, mark, r.ID) // and not the mark of the other
		})
	}
}

// A mark that is no longer in the feed is a gap: so is a server with another content.
func TestGapInChanges(t *testing.T) {
	s := open(t, single(t))
	r := newKey(t, s)
	mark := changesAfter(t, s, "").Mark
	if err := s.client.ZRem(ctx, s.names.changes(), mark).Err(); err != nil {
		t.Fatal(err)
	}
	update(t, s, r)
	c := changesAfter(t, s, mark)
	if !c.Gap || c.Mark == mark {
		t.Errorf("%+v, want a gap", c)
	}
	wantChanges(t, s, c.Mark)
}

// The feed drops what is older than five minutes, but keeps the newest of that: it is
// the mark of all gateways on a store at rest. The order is kept when the clock of the
// server was ahead.
func TestChangesArePruned(t *testing.T) {
	s := open(t, single(t))
	r := newKey(t, s)
	zadd := func(members ...string) {
		for _, m := range members {
			if err := s.client.Do(ctx, "zadd", s.names.changes(), 0, m).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var old []string
	for i := range 10 {
		old = append(old, fmt.Sprintf("%016d:old", i))
	}
	zadd(old...)
	update(t, s, r)
	if c := changesAfter(t, s, old[8]); !c.Gap {
		t.Errorf("%+v, want a gap: it was removed", c)
	}
	update(t, s, r)
	if c := changesAfter(t, s, old[9]); c.Gap || len(c.IDs) < 2 {
		t.Errorf("%+v, want the last two changes", c)
	}
	const ahead = "8000000000000000:ahead"
	zadd(ahead)
	update(t, s, r)
	update(t, s, r)
	wantChanges(t, s, ahead, r.ID, r.ID)
}
