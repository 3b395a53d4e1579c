package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file/journal"
)

// TestSegments: each minute begins a new segment. A segment is removed when it
// is dead, and entries of it that are still needed are kept.
func TestSegments(t *testing.T) {
	b := newBench(t, Options{})
	limit := ratelimit.NewCharge("issue_card", ratelimit.Limit{Count: 50, Period: 24 * time.Hour, Burst: 50}, 1)
	first := b.claim()
	first.Charges = []ratelimit.Charge{limit}
	b.expect(first, auth.Accepted)
	b.fail(3)
	idle, busy := b.record, b.newKey()
	b.record = busy
	most := 0
	for range 60 {
		b.expect(b.claim(), auth.Accepted)
		b.keep()
		b.clock.advance(time.Minute)
		most = max(most, len(segments(t, b.dir)))
	}
	if most > 14 {
		t.Errorf("%d segments at a time, want no more than what the life of nonces asks for", most)
	}
	b.clock.advance(time.Hour)
	b.keep()
	b.keep()
	if left := len(segments(t, b.dir)); left > 3 {
		t.Errorf("%d segments when nothing is live any more", left)
	}

	for range 2 {
		b.crash(nil)
		r, err := b.Get(t.Context(), idle.ID)
		if err != nil || r.Failures != 3 || !r.LastUsed[1].Equal(first.Now) {
			t.Fatalf("%+v, %v: want 3 failures and the last use of the secret", r, err)
		}
	}
	b.record = idle
	c := b.claim()
	c.Charges = []ratelimit.Charge{limit}
	if v := b.expect(c, auth.Accepted); v.States[0].Remaining != 49 || v.States[0].Next > 1728*time.Second {
		t.Fatalf("%+v: want the level of before, drained since", v.States[0])
	}
}

// TestOriginsOutliveSegments: what a holder has added to the failure count is known after
// a crash, although the segments in which it was written were removed.
func TestOriginsOutliveSegments(t *testing.T) {
	b := newBench(t, Options{noKeeper: true})
	other := b.newKey()
	minutes := func(n int) {
		for range n {
			b.clock.advance(time.Minute)
			c := b.claim()
			c.KeyID, c.Revision = other.ID, other.Revision
			b.expect(c, auth.Accepted)
			b.keep()
		}
	}
	stranger := func() store.Verdict {
		c := b.claim()
		c.Failed, c.From = auth.RuleSignature, netip.MustParsePrefix("192.0.2.8/32")
		return b.expect(c, auth.SignatureMismatch)
	}
	minutes(2) // a segment lives for ten minutes after a key is made
	b.expect(b.claim(), auth.Accepted)
	for range 25 {
		stranger()
	}
	before := segments(t, b.dir)
	minutes(9)
	if after := segments(t, b.dir); slices.Contains(after, before[len(before)-1]) {
		t.Fatalf("%q are there, of %q", after, before)
	}
	for range 2 {
		b.crash(nil)
		if v := stranger(); !v.Uncounted || v.Failures != 25 {
			t.Fatalf("%+v: want that it is not counted, and a count of 25", v)
		}
	}
}

// TestAddressesAreNotedSeldom: within ten seconds, accepted requests note at most two of
// all addresses that use a key.
func TestAddressesAreNotedSeldom(t *testing.T) {
	b := newBench(t, Options{})
	noted := map[[2]pair]bool{}
	for i := range 60 {
		c := b.claim()
		c.From = netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 20)}), 32)
		b.expect(c, auth.Accepted)
		noted[b.state.Load().key(b.record.ID).accepted] = true
	}
	if len(noted) != 2 {
		t.Errorf("written %d times: %v; want 2", len(noted), noted)
	}
}

// TestStateOfEarlierVersions: what earlier versions wrote of a key is read, and they read
// when secrets were used from what is written now.
func TestStateOfEarlierVersions(t *testing.T) {
	used := []pair{{1, 60}, {7, 120}}
	earlier := string(appendPairs(nil, used))
	k := &keyState{origins: origins{parts: []pair{{5, 5}}}}
	k.readState(earlier)
	if !slices.Equal(k.used, used) || k.accepted != [2]pair{} || len(k.parts) != 0 {
		t.Fatalf("read %v %+v, want %v", k.used, k.origins, used)
	}
	k.origins = origins{[2]pair{{3, 1}, {4, 2}}, []pair{{5, 25}}}
	now := string(k.appendState(nil))
	if four := readPairs(now)[:4]; !slices.Equal(four, append(used, pair{}, pair{})) {
		t.Fatalf("an earlier version reads %v, want %v", four, used)
	}
	again := new(keyState)
	if again.readState(now); !slices.Equal(again.used, used) || fmt.Sprint(again.origins) != fmt.Sprint(k.origins) {
		t.Fatalf("read %v %+v, want %v %+v", again.used, again.origins, used, k.origins)
	}
}

// TestJournalCannotGrow: while the disk is full, requests are refused. They are
// accepted again when it has room. None is accepted without an entry in the
// journal.
func TestJournalCannotGrow(t *testing.T) {
	b := newBench(t, Options{retryAfter: 1})
	dir := filepath.Join(b.dir, journalDir)
	b.state.Load().keeping.Lock() // the keeper is slow
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	accepted, err := b.fillUp()
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrFull) {
		t.Fatalf("%v after %d requests, want ErrUnavailable", err, len(accepted))
	}
	if b.Ready(t.Context()) == nil || b.Status(t.Context()).Ready {
		t.Error("ready although nothing can be settled")
	}
	c := b.claim()
	c.Failed = auth.RuleSignature
	if _, err := b.Settle(t.Context(), c); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a failure that counts: %v, want ErrUnavailable", err)
	}
	if !strings.Contains(b.problems.text(), "the journal cannot be written") {
		t.Errorf("told %q", b.problems.text())
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	b.state.Load().keeping.Unlock()
	b.keep()
	if err := b.Ready(t.Context()); err != nil {
		t.Fatalf("not ready when the disk is back: %v", err)
	}
	b.expect(b.claim(), auth.Accepted)
	b.crash(nil)
	for _, c := range accepted {
		b.expect(c, auth.ReplayedNonce)
	}
}

// fillUp settles requests until one fails.
func (b *bench) fillUp() (accepted []*store.Claim, err error) {
	for range 1 << 19 {
		c := b.claim()
		if _, err := b.Settle(b.t.Context(), c); err != nil {
			return accepted, err
		}
		accepted = append(accepted, c)
	}
	return accepted, nil
}

// TestFileCutUnderMapping: if somebody truncates a journal file, the store
// returns an error and the process goes on. The next start notices that entries
// are missing.
func TestFileCutUnderMapping(t *testing.T) {
	b := newBench(t, Options{})
	c := b.claim()
	b.expect(c, auth.Accepted)
	if err := os.Truncate(segments(t, b.dir)[0], 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Settle(t.Context(), b.claim()); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("%v, want ErrUnavailable", err)
	}
	b.expect(b.claim(), auth.Accepted)
	b.expect(c, auth.ReplayedNonce)
	b.crash(nil)
	if told := b.problems.text(); !strings.Contains(told, "missing") {
		t.Fatalf("told %q, want that entries are missing", told)
	}
	b.expect(c, auth.ReplayFloor)
}

// TestCaps: the store never forgets anything to make room.
func TestCaps(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  Options
	}{
		{"per key", Options{MaxNoncesPerKey: 100}},
		{"in all", Options{MaxNonces: 100}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.opt)
			var all []*store.Claim
			for range 100 {
				all = append(all, b.claim())
				b.expect(all[len(all)-1], auth.Accepted)
			}
			over := b.claim()
			for range 3 {
				if _, err := b.Settle(t.Context(), over); !errors.Is(err, store.ErrFull) || !errors.Is(err, store.ErrUnavailable) {
					t.Fatalf("%v, want ErrFull", err)
				}
				b.clock.advance(100 * time.Second)
				over = b.claim()
			}
			for _, c := range all {
				b.expect(c, auth.ReplayedNonce)
			}
			b.clock.advance(11 * time.Second)
			b.expect(b.claim(), auth.Accepted)
			if got := *b.Status(t.Context()).Details.Nonces; got != 1 {
				t.Errorf("%v nonces, want 1", got)
			}
		})
	}
}

// TestNearCap: the status reports nonces that use more than four fifths of the cap.
func TestNearCap(t *testing.T) {
	b := newBench(t, Options{MaxNonces: 100})
	for range 80 {
		b.expect(b.claim(), auth.Accepted)
	}
	if got := b.Status(t.Context()).Details.Degraded; got != nil {
		t.Errorf("80 of 100 nonces: degraded %v, want nothing", got)
	}
	b.expect(b.claim(), auth.Accepted)
	if got := b.Status(t.Context()).Details.Degraded; !slices.Equal(got, []string{"nonces"}) {
		t.Errorf("81 of 100 nonces: degraded %v, want nonces", got)
	}
}

// TestLockIsFolded: a lock is in the journal at once and in the key file soon.
func TestLockIsFolded(t *testing.T) {
	b := newBench(t, Options{})
	b.fail(2)
	c := b.claim()
	c.LockAfter = 2
	b.expect(c, auth.KeyLocked)
	b.keep()
	f, err := readKeyFile(filepath.Join(b.dir, keyFileName))
	if err != nil || f.Keys[0].Revision != c.NextRevision || f.Keys[0].Lock == nil {
		t.Fatalf("%+v, %v: want the lock", f, err)
	}
}

// entries returns the number of entries of the journal, by its high-water mark.
func (b *bench) entries() uint32 {
	return binary.LittleEndian.Uint32(readFile(b.t, markPath(b.opt.RuntimeDir, b.dir))[8:]) - 1
}

// TestCarriedStateRests: state that fills more than one segment is seldom
// carried over.
func TestCarriedStateRests(t *testing.T) {
	b := newBench(t, Options{})
	st := b.state.Load()
	const keys = 5000
	for i := range keys {
		k := st.makeKey(fmt.Sprintf("ck_test_%040d", i))
		k.failures = 1
		if err := k.append(st, &journal.Entry{Kind: journal.KindCounted, Now: b.clock.now().Unix(), Key: k.id, Failures: 1}); err != nil {
			t.Fatal(err)
		}
	}
	before := b.entries()
	for range 30 { // five minutes
		b.clock.advance(10 * time.Second)
		st.keep(b.clock.now().Unix())
	}
	if written := b.entries() - before; written > 2*keys {
		t.Errorf("%d entries were written in five minutes without a request, want at most one carrying over of %d", written, keys)
	}
}
