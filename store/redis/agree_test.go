package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/store/storetest"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// The Lua form and the Go form of the limits give the same results to the bit:
// for any limits at any moments, with a clock that goes back, and with limits
// that change in between.
func TestLimitsAgree(t *testing.T) {
	opt := single(t)
	opt.IOTimeout, opt.SettleTimeout = time.Second, 2*time.Second // a busy machine is not under test
	s := open(t, opt)
	s.settling = byClaim(t, settleScript)
	limit := rapid.Custom(func(t *rapid.T) ratelimit.Limit {
		l := ratelimit.Limit{
			Count:  rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 1e9)).Draw(t, "count"),
			Period: time.Second * time.Duration(rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 31*86400)).Draw(t, "period")),
		}
		l.Burst = rapid.OneOf(rapid.Just(l.Count), rapid.Int64Range(1, l.Count)).Draw(t, "burst")
		return l
	})
	rapid.Check(t, func(t *rapid.T) {
		r := newRecord()
		if _, err := s.Put(ctx, r, store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		levels := map[string]ratelimit.Level{}
		now := time.UnixMicro(1_700_000_000_000_000)
		charges := []ratelimit.Charge{}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			if len(charges) == 0 || rapid.IntRange(0, 4).Draw(t, "change") == 0 {
				charges = charges[:0]
				for i := range rapid.IntRange(1, ratelimit.MaxCharges).Draw(t, "buckets") {
					l := limit.Draw(t, "limit")
					charges = append(charges, ratelimit.NewCharge(fmt.Sprint("bucket ", i), l, rapid.Int64Range(1, l.Burst).Draw(t, "cost")))
				}
			}
			now = now.Add(time.Microsecond * time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(-1e6, 1e8), rapid.Int64Range(0, 4e12)).Draw(t, "elapsed")))
			c := newClaim(r)
			c.Now, c.Timestamp, c.Charges = now, now.Unix(), charges
			got, err := s.Settle(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			if want := decide(levels, c); got != want {
				t.Fatalf("redis says\n%+v\nwant\n%+v", got, want)
			}
		}
	})
}

// decide returns the verdict of package ratelimit on the claim.
func decide(levels map[string]ratelimit.Level, c *store.Claim) store.Verdict {
	var v store.Verdict
	var next [ratelimit.MaxCharges]ratelimit.Level
	var fits [ratelimit.MaxCharges]bool
	now := c.Now.UnixMicro()
	for i := range c.Charges {
		next[i], fits[i] = c.Charges[i].Decide(levels[c.Charges[i].Bucket], now)
		v.OverLimit = v.OverLimit || !fits[i]
	}
	for i := range c.Charges {
		ch := &c.Charges[i]
		if !v.OverLimit {
			levels[ch.Bucket] = next[i]
		}
		v.States[i] = ch.State(levels[ch.Bucket], now, fits[i])
	}
	if v.OverLimit {
		v.Reason = auth.RateLimited
	}
	return v
}

// In the steady state a request is one script call and nothing else.
func TestOneScriptCall(t *testing.T) {
	p := redistest.Own(t, false)
	s, err := New(Options{Options: rpc.Options{URL: p.URL(), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := newKey(t, s)
	const n = 500
	expect(t, s, newClaim(r), auth.Accepted)
	p.Do(t, "config", "resetstat")
	for range n {
		c := charge(t, newClaim(r), "issue_card", "1000000/1m")
		expect(t, s, charge(t, c, "total", "1000000/1m"), auth.Accepted)
	}
	stats := p.Do(t, "info", "commandstats").(string)
	for line := range strings.Lines(stats) {
		name, values, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		calls, _, _ := strings.Cut(strings.TrimPrefix(values, "calls="), ",")
		switch {
		case name == "evalsha" && calls != fmt.Sprint(n):
			t.Errorf("%s calls of evalsha for %d requests", calls, n)
		case strings.HasPrefix(name, "eval") && name != "evalsha", strings.HasPrefix(name, "script"):
			t.Errorf("calls of %s: %s", name, calls)
		}
	}
	if !strings.Contains(stats, "cmdstat_evalsha:") {
		t.Errorf("no evalsha in %s", stats)
	}
	// A check of the servers that finds nothing new calls no script.
	p.Do(t, "config", "resetstat")
	if err := check(s); err != nil {
		t.Fatal(err)
	}
	if stats := p.Do(t, "info", "commandstats").(string); strings.Contains(stats, "eval") {
		t.Errorf("a look called a script:\n%s", stats)
	}
}

// The memory that an accepted request takes in Redis while its nonce lives is
// bounded.
func TestMemoryPerNonce(t *testing.T) {
	const most = 200 // bytes, on any path
	tests := []struct {
		name           string
		keys, requests int
	}{{"one busy key", 1, 8_000}, {"keys with 50 requests", 100, 50}, {"keys with 10 requests", 300, 10}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := redistest.Own(t, false)
			s := open(t, Options{Options: rpc.Options{URL: p.URL(), IOTimeout: time.Second}, SettleTimeout: 2 * time.Second})
			records := make([]*store.Record, tt.keys)
			for i := range records {
				records[i] = newKey(t, s)
				expect(t, s, charge(t, newClaim(records[i]), "issue_card", "1000000/1m"), auth.Accepted)
			}
			before := usedMemory(t, p)
			var tasks sync.WaitGroup
			for worker := range 4 {
				tasks.Go(func() {
					for i := worker; i < tt.keys*tt.requests; i += 4 {
						expect(t, s, charge(t, newClaim(records[i%tt.keys]), "issue_card", "1000000/1m"), auth.Accepted)
					}
				})
			}
			tasks.Wait()
			each := float64(usedMemory(t, p)-before) / float64(tt.keys*tt.requests)
			t.Logf("%.0f bytes", each)
			if each > most {
				t.Errorf("%.0f bytes per accepted request, at most %d are allowed", each, most)
			}
		})
	}
}

func usedMemory(t testing.TB, p *redistest.Process) int64 {
	t.Helper()
	text := p.Do(t, "info", "memory").(string)
	_, text, _ = strings.Cut(text, "\nused_memory:")
	text, _, _ = strings.Cut(text, "\r")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Everything of a key in Redis except the record expires when the nonces are
// dead.
func TestEverythingExpires(t *testing.T) {
	p := redistest.Own(t, false)
	s := open(t, Options{Options: rpc.Options{URL: p.URL()}})
	r := newKey(t, s)
	expect(t, s, charge(t, newClaim(r), "issue_card", "5/1m"), auth.Accepted)
	check := func(without ...string) {
		t.Helper()
		for _, name := range p.Do(t, "keys", "*").([]any) {
			ttl := p.Do(t, "pttl", name).(int64)
			lasting := false
			for _, w := range without {
				lasting = lasting || w == name
			}
			if (ttl > 0) == lasting || ttl > (24*time.Hour+2*MaxWindow).Milliseconds() {
				t.Errorf("%s lives %d ms", name, ttl)
			}
		}
	}
	beat := s.servers.BeatOf(r.ID).Key
	check(s.names.record(r.ID), s.names.index(), s.names.changes(), s.names.shared(), beat)
	if _, err := s.Delete(ctx, r.ID, ""); err != nil {
		t.Fatal(err)
	}
	check(s.names.index(), s.names.changes(), s.names.shared(), beat)
	put(t, s, r)
	check(s.names.record(r.ID), s.names.index(), s.names.changes(), s.names.shared(), beat)
}

// Gateways with different prefixes on one server share nothing.
func TestPrefixes(t *testing.T) {
	a, b := open(t, single(t)), open(t, single(t))
	r := newKey(t, a)
	if _, err := b.Get(context.Background(), r.ID); err == nil {
		t.Error("a key of another prefix was found")
	}
	put(t, b, r)
	c := newClaim(r)
	expect(t, a, c, auth.Accepted)
	expect(t, b, again(c), auth.Accepted)
	if all, err := a.List(ctx, "", 10); err != nil || len(all.Records) != 1 {
		t.Errorf("%d keys listed, %v; want 1", len(all.Records), err)
	}
}

func BenchmarkSettle(b *testing.B) {
	s := open(b, single(b))
	r := newKey(b, s)
	for _, buckets := range []int{0, ratelimit.MaxCharges} {
		b.Run(fmt.Sprintf("%d buckets", buckets), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := newClaim(r)
				for i := range buckets {
					charge(b, c, fmt.Sprint("bucket", i), "1000000000/1s")
				}
				expect(b, s, c, auth.Accepted)
			}
		})
	}
}

// BenchmarkReads measures Look and Levels beside Settle.
func BenchmarkReads(b *testing.B) { storetest.Bench(b, open(b, single(b))) }

// Lua keeps every digit of whole numbers up to 2^53: when they are packed, read
// from a decimal and written as one.
func TestNumbersInLua(t *testing.T) {
	s := open(t, single(t))
	script := rpc.NewScript(`return {ARGV[1], string.format('%d', struct.unpack('<d', ARGV[2])), string.format('%d', ARGV[3] + 0), (struct.unpack('<d', ARGV[2]))}`)
	const most = 1 << 53
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64Range(-most, most), rapid.SampledFrom([]int64{0, 1, -1, most, -most, most - 1, 1e15, 1e16 / 2})).Draw(t, "n")
		reply, err := s.client.Run(ctx, "counting", rpc.Call{Script: script, Keys: []string{s.names.index()}, Args: []any{appendDoubles(nil, n), n}})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(reply...), fmt.Sprint(fmt.Sprint(n), fmt.Sprint(n), n); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}
