package redis

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

//go:embed testdata/settle_decimal.lua
var decimalLua string

// decimalArgs are the arguments of the script of the version before.
func decimalArgs(a *attempt) []any {
	args := []any{
		a.Revision, a.NextRevision, a.seen.Known, a.seen.FloorOf(a.KeyID), a.ReplayFloorAhead.Microseconds(),
		a.Now.UnixMicro(), a.Timestamp, a.Window.Milliseconds(), a.lifeWindow.Milliseconds(),
		a.life(), a.Nonce[:], int64(a.failed), a.counts(), int64(a.LockAfter), a.lockUntil(),
		a.DryRun, a.LimitsDryRun, int64(a.SecretVersion), a.Now.Unix() / 60, a.look, a.BodyDropped,
		int64(a.maxNonces),
	}
	for i := range a.Charges {
		ch := &a.Charges[i]
		args = append(args, ch.Bucket, ch.Unit, ch.Drain, ch.Capacity, ch.Cost)
	}
	return args
}

// settleAsBefore settles a claim like a gateway of the version before, and
// returns its reply with the numbers in one text, as in that version.
func settleAsBefore(t rapid.TB, s *Store, c *store.Claim) string {
	a := attempt{Claim: c, seen: s.servers.View(), lifeWindow: c.Window, failed: c.Failed, maxNonces: s.opt.MaxNoncesPerKey}
	source := strings.Replace(decimalLua, "local now = clock()\n", "local now = claim_now\n", 1)
	reply, err := s.client.Run(ctx, "settling", rpc.Call{Script: rpc.NewScript(source), Keys: s.settleKeys(&a), Args: decimalArgs(&a)})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(reply...)
}

func settleAsNow(t rapid.TB, s *Store, c *store.Claim) string {
	outcome, n, err := s.attempt(ctx, attempt{Claim: c, seen: s.servers.View(), lifeWindow: c.Window, failed: c.Failed, maxNonces: s.opt.MaxNoncesPerKey})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(outcome, strings.Trim(fmt.Sprint(n.rest), "[]"))
}

// kept returns the state of a key's requests in Redis, without revisions. Spans
// are in the order of time, because the version before sorted them.
func kept(t rapid.TB, s *Store, r *store.Record) string {
	all, err := s.client.HGetAll(ctx, s.names.record(r.ID)).Result()
	if err != nil {
		t.Fatal(err)
	}
	spans := strings.Fields(all["spans"])
	pairs := make([]string, 0, len(spans)/2)
	for i := 0; i+1 < len(spans); i += 2 {
		pairs = append(pairs, spans[i]+" "+spans[i+1])
	}
	slices.Sort(pairs)
	buckets, err := s.client.HGetAll(ctx, s.names.buckets(r.ID)).Result()
	if err != nil {
		t.Fatal(err)
	}
	delete(buckets, "until")
	return fmt.Sprint(pairs, all["fails"], all["hi"], all["window"], all["floor"], all["last:1"], buckets)
}

// While gateways are updated one by one, both versions settle requests of one
// key in turn. The answers and the stored numbers are exactly those that either
// version alone would give.
func TestBesideTheVersionBefore(t *testing.T) {
	s := open(t, single(t))
	s.settling = byClaim(t, settleScript)
	limit, err := ratelimit.ParseLimit("7/1m")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		mixed, before, alone := newRecord(), newRecord(), newRecord()
		for _, r := range []*store.Record{mixed, before, alone} {
			if _, err := s.Put(ctx, r, store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		now := time.UnixMicro(1_700_000_000_000_000)
		accepted := map[[16]byte]time.Time{}
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.OneOf(rapid.Int64Range(0, 2e6), rapid.Int64Range(-1e6, 4e8)).Draw(t, "elapsed, us")) * time.Microsecond)
			c := newClaim(mixed)
			c.Now, c.Timestamp = now, now.Unix()+rapid.Int64Range(-305, 305).Draw(t, "stamped")
			c.Nonce = [16]byte{rapid.Byte().Draw(t, "nonce") % 12}
			c.Failed = auth.Rules(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1 << 6, 1 << 10, 1<<9 | 1<<12}).Draw(t, "failed"))
			c.LockAfter, c.LimitsDryRun = 4, rapid.IntRange(0, 5).Draw(t, "dry") == 0
			if late(c) {
				c.Failed |= auth.RuleTimestamp // which attempt adds
			}
			for i := range rapid.IntRange(0, 2).Draw(t, "buckets") {
				c.Charges = append(c.Charges, ratelimit.NewCharge(fmt.Sprint("bucket", i), limit, 1))
			}
			settle := settleAsNow
			if rapid.Bool().Draw(t, "by the version before") {
				settle = settleAsBefore
			}
			got := settle(t, s, c)
			for r, settle := range map[*store.Record]func(rapid.TB, *Store, *store.Claim) string{before: settleAsBefore, alone: settleAsNow} {
				other := *c
				other.KeyID, other.Revision = r.ID, r.Revision
				if want := settle(t, s, &other); got != want {
					t.Fatalf("both versions in turn answer %q, one of them alone %q", got, want)
				}
				if got, want := kept(t, s, mixed), kept(t, s, r); got != want {
					t.Fatalf("both versions in turn keep\n%s\none of them alone\n%s", got, want)
				}
			}
			if strings.HasPrefix(got, "key_locked") {
				return // its revision has changed
			}
			if strings.HasPrefix(got, auth.Accepted.String()) {
				if at, twice := accepted[c.Nonce]; twice && now.Sub(at).Abs() < c.Window {
					t.Fatalf("a nonce was accepted twice within %v", now.Sub(at))
				}
				accepted[c.Nonce] = now
			}
		}
	})
}
