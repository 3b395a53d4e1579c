package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// copies returns the copies of the epoch by their ranges; "" means that a copy
// is missing.
func copies(t rapid.TB, s *Store) (all [slotRanges]string) {
	t.Helper()
	for i, name := range s.names.epochs() {
		copied, _, err := s.value(ctx, name, "get", "")
		if err != nil {
			t.Fatal(err)
		}
		all[i] = string(copied)
	}
	return all
}

// wantMade checks that the store is in use: all copies exist, and the note that
// they are being made is removed.
func wantMade(t rapid.TB, s *Store) {
	t.Helper()
	for i, found := range copies(t, s) {
		if want := s.servers.view.Load().epoch; want == "" || found != want {
			t.Errorf("the copy of range %d is %q, want %q", i, found, want)
		}
	}
	wantNoNote(t, s)
}

func wantNoNote(t rapid.TB, s *Store) {
	t.Helper()
	if noted, err := s.client.HExists(ctx, s.names.shared(), "making").Result(); err != nil || noted {
		t.Errorf("that the copies are being made is still noted (%v, %v)", noted, err)
	}
}

// otherMaster returns the index of a master that does not have the slot of a name.
func otherMaster(name string) int { return (owner(slot(name)) + 1) % 3 }

// While one master of a new cluster is out of reach nothing is put into use: no key
// is unknown, and none can be made. When it is back, everything works by itself.
func TestNewClusterWithoutOneMaster(t *testing.T) {
	t.Parallel()
	opt := Options{ClusterAddrs: addrs(sharedCluster(t)), Prefix: random() + ":"}
	var cut atomic.Bool
	cut.Store(true)
	away := opt.ClusterAddrs[otherMaster(names{opt.Prefix}.shared())]
	opt.dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if cut.Load() && addr == away {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("it is cut off")}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	s := open(t, opt)
	r := newRecord()
	for range 2 {
		if err := s.servers.check(ctx, mayBegin); !errors.Is(err, errBeingMade) || !errors.Is(s.Ready(ctx), errBeingMade) {
			t.Fatalf("%v, want that the store is being made", err)
		}
		calls := otherCalls(s, r)
		for _, call := range []string{"Get", "Put", "Meta", "PutMeta"} { // the other calls list or delete, and there is nothing
			if err := calls[call]; !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: %v, want ErrUnavailable", call, err)
			}
		}
		expectUnavailable(t, s, newClaim(r))
	}
	cut.Store(false)
	eventually(t, 5*time.Second, "ready", func() bool { return s.Ready(ctx) == nil })
	wantMade(t, s)
	if _, err := s.Meta(ctx, "name"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Meta: %v, want ErrNotFound", err)
	}
	put(t, s, r)
	flows(t, s, r, 5*time.Second)
}

// foundStore is the state that a starting gateway finds. The epoch is "own".
type foundStore struct {
	noted, keys bool
	copies      [slotRanges]string
}

func drawStore(t *rapid.T) (f foundStore) {
	f.noted, f.keys = rapid.Bool().Draw(t, "noted"), rapid.IntRange(0, 3).Draw(t, "keys") == 0
	kinds := rapid.SampledFrom([][]string{{""}, {"own"}, {"", "own"}, {"", "own"}, {"", "other"}, {"other", "own"}, {"", "own", "other"}}).Draw(t, "kinds")
	for i := range f.copies {
		f.copies[i] = rapid.SampledFrom(kinds).Draw(t, fmt.Sprint("copy ", i))
	}
	return f
}

func (f *foundStore) write(t rapid.TB, s *Store) {
	pipe := s.client.Pipeline()
	pipe.HSet(ctx, s.names.shared(), "epoch", "own")
	if f.noted {
		pipe.HSet(ctx, s.names.shared(), "making", "1")
	}
	if f.keys {
		pipe.ZAdd(ctx, s.names.index(), redis.Z{Member: "ck_test_some"})
	}
	for i, name := range s.names.epochs() {
		if f.copies[i] != "" {
			pipe.Set(ctx, name, f.copies[i], 0)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
}

// becomes returns the copies after a check, and the ranges that count as emptied.
func (f *foundStore) becomes() (copies [slotRanges]string, emptied uint64) {
	missing, other := 0, false
	for i, c := range f.copies {
		other = other || c == "other"
		if c == "" {
			missing++
			emptied |= 1 << i
		}
	}
	if !(f.noted && !f.keys && !other) && missing < slotRanges {
		return f.copies, emptied
	}
	for i := range copies {
		copies[i] = "own"
	}
	return copies, 0
}

// A starting gateway may find any state of the epoch and its copies. It takes
// the store for a new one only if nothing shows that it was in use.
func TestFoundOfTheEpoch(t *testing.T) {
	t.Parallel()
	nodes := sharedCluster(t)
	rapid.Check(t, func(t *rapid.T) {
		s, err := New(patient(Options{ClusterAddrs: addrs(nodes), Prefix: random() + ":"}))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f := drawStore(t)
		f.write(t, s)
		if err := s.servers.check(ctx, mayBegin); err != nil {
			t.Fatal(err)
		}
		want, emptied := f.becomes()
		if got := s.servers.view.Load(); got.emptied != emptied || got.making {
			t.Errorf("emptied ranges %x, being made %v; want %x", got.emptied, got.making, emptied)
		}
		if got := copies(t, s); got != want {
			t.Errorf("copies %q, want %q", got, want)
		}
		wantNoNote(t, s)
	})
}

// A gateway of a version that does not know the note accepts requests. Then a
// master is emptied while the note exists, and the list of keys is lost too. No
// request is accepted again.
func TestEmptiedWhileNoted(t *testing.T) {
	t.Parallel()
	nodes := sharedCluster(t)
	opt := Options{ClusterAddrs: addrs(nodes), Prefix: random() + ":"}
	for owner(slot(names{opt.Prefix}.index())) == owner(slot(names{opt.Prefix}.shared())) {
		opt.Prefix = random() + ":"
	}
	s, err := New(patient(opt))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	emptied := owner(slot(s.names.index()))
	r := newRecord()
	for owner(slot(r.ID)) != emptied {
		r = newRecord()
	}
	put(t, s, r)
	c := acceptAhead(t, s, r)
	if err := s.client.HSet(ctx, s.names.shared(), "making", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range nodes[emptied].client.Keys(ctx, opt.Prefix+"*").Val() {
		nodes[emptied].do(t, "del", name)
	}
	if err := s.servers.check(ctx, mayBegin); err != nil {
		t.Fatal(err)
	}
	wantMade(t, s)
	put(t, s, r)
	expect(t, s, again(c), auth.ReplayFloor)
}
