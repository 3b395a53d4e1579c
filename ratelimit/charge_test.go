package ratelimit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// epoch is where the tables of moments begin, in microseconds.
const epoch = 1_700_000_000_000_000

func mustParse(tb testing.TB, s string) Limit {
	tb.Helper()
	l, err := ParseLimit(s)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// A moment is one request in a table: when it arrives, under which limit, and
// the result.
type moment struct {
	at        time.Duration // since epoch
	limit     string        // a new limit from here on
	requests  int           // how many equal requests, all with the outcome ok; 0 means 1
	ok        bool
	remaining int64         // after the last of them
	retry     time.Duration // of a refused one
	reset     int64         // seconds since epoch
}

func TestMoments(t *testing.T) {
	const us = time.Microsecond
	tests := map[string][]moment{
		"first request": {
			{limit: "5/1m", ok: true, remaining: 4, reset: 12},
		},
		"limit of one": {
			{limit: "1/1s", ok: true, remaining: 0, reset: 1},
			{at: time.Second - us, retry: us, reset: 1},
			{at: time.Second, ok: true, reset: 2},
		},
		"six requests against five": {
			{limit: "5/1m", requests: 5, ok: true, remaining: 0, reset: 60},
			{retry: 12 * time.Second, reset: 60},
			{requests: 100, retry: 12 * time.Second, reset: 60},
		},
		"exact refill instants": {
			{limit: "5/1m", requests: 5, ok: true, remaining: 0, reset: 60},
			{at: 12*time.Second - us, retry: us, reset: 60},
			{at: 12 * time.Second, ok: true, remaining: 0, reset: 72},
			{at: 12 * time.Second, retry: 12 * time.Second, reset: 72},
			{at: 48 * time.Second, requests: 3, ok: true, remaining: 0, reset: 108},
			{at: 48 * time.Second, retry: 12 * time.Second, reset: 108},
			{at: 108 * time.Second, requests: 5, ok: true, remaining: 0, reset: 168},
		},
		"burst below the count": {
			{limit: "60/1m burst 10", requests: 10, ok: true, remaining: 0, reset: 10},
			{retry: time.Second, reset: 10},
			{at: time.Second, ok: true, remaining: 0, reset: 11},
			{at: time.Hour, requests: 10, ok: true, remaining: 0, reset: 3610},
			{at: time.Hour, retry: time.Second, reset: 3610},
		},
		"no double burst at a window's edge": {
			{at: 59 * time.Second, limit: "60/1m", requests: 60, ok: true, remaining: 0, reset: 119},
			{at: 60 * time.Second, ok: true, remaining: 0, reset: 120},
			{at: 60 * time.Second, retry: time.Second, reset: 120},
		},
		"first request after the window": {
			{limit: "3/10s", requests: 3, ok: true, remaining: 0, reset: 10},
			{at: 10*time.Second + time.Millisecond, ok: true, remaining: 2, reset: 14},
		},
		"clock goes back": {
			{at: time.Minute, limit: "2/1m", requests: 2, ok: true, remaining: 0, reset: 120},
			{at: 0, retry: 90 * time.Second, reset: 120},
			{at: 89 * time.Second, retry: time.Second, reset: 120},
			{at: 90 * time.Second, ok: true, remaining: 0, reset: 150},
		},
		"raised in mid-window keeps what was spent": {
			{limit: "5/1m", requests: 4, ok: true, remaining: 1, reset: 48},
			{limit: "10/1m", ok: true, remaining: 5, reset: 30},
			{requests: 5, ok: true, remaining: 0, reset: 60},
			{retry: 6 * time.Second, reset: 60},
		},
		"lowered in mid-window waits no longer than a full bucket": {
			{limit: "600/1m", requests: 300, ok: true, remaining: 300, reset: 30},
			{limit: "5/1m", retry: 12 * time.Second, reset: 60},
			{at: 12*time.Second - us, retry: us, reset: 60},
			{at: 12 * time.Second, ok: true, remaining: 0, reset: 72},
		},
		"burst lowered alone": {
			{limit: "60/1m", requests: 60, ok: true, remaining: 0, reset: 60},
			{limit: "60/1m burst 10", retry: time.Second, reset: 10},
			{at: time.Second, ok: true, remaining: 0, reset: 11},
		},
		"period of a day": {
			{limit: "50/1d", requests: 50, ok: true, remaining: 0, reset: 86400},
			{retry: 1728 * time.Second, reset: 86400},
			{at: 1728 * time.Second, ok: true, remaining: 0, reset: 88128},
		},
		"odd rate": { // 1 s / 7 is not a whole number of microseconds
			{limit: "7/1s", requests: 7, ok: true, remaining: 0, reset: 1},
			{at: 142_857 * us, retry: us, reset: 1},
			{at: 142_858 * us, ok: true, remaining: 0, reset: 2},
			{at: 285_715 * us, ok: true, remaining: 0, reset: 2},
		},
		"cost": {
			{limit: "100/1m cost 5", requests: 20, ok: true, remaining: 0, reset: 60},
			{retry: 3 * time.Second, reset: 60},
			{at: 2 * time.Second, retry: time.Second, remaining: 3, reset: 60},
			{at: 3 * time.Second, ok: true, remaining: 0, reset: 63},
		},
		"largest": {
			{limit: "1000000000/31d", requests: 1000, ok: true, remaining: 1e9 - 1000, reset: 3},
		},
		"large and awkward": {
			{limit: "999999937/31d", ok: true, remaining: 999999936, reset: 1},
			{at: 40 * 365 * 24 * time.Hour, ok: true, remaining: 999999936, reset: 40*365*86400 + 1},
		},
	}
	for name, moments := range tests {
		t.Run(name, func(t *testing.T) { playMoments(t, moments) })
	}
}

func playMoments(t *testing.T, moments []moment) {
	var c Charge
	var level Level
	for i, m := range moments {
		if m.limit != "" {
			l := mustParse(t, m.limit)
			c = NewCharge("b", l, l.Cost)
		}
		now := int64(epoch) + m.at.Microseconds()
		for range max(1, m.requests) {
			next, ok := c.Decide(level, now)
			if ok != m.ok {
				t.Fatalf("moment %d: ok is %v from level %+v", i, ok, level)
			}
			s := c.State(next, now, ok)
			if !ok {
				if before := c.State(level, now, false); before != s {
					t.Fatalf("moment %d: a refusal changed the level: %+v, %+v", i, before, s)
				}
			}
			level = next
		}
		s := c.State(level, now, m.ok)
		if s.Remaining != m.remaining || s.Retry != m.retry || s.Reset != m.reset+epoch/1e6 {
			t.Fatalf("moment %d: remaining %d, retry %v, reset %d; want %d, %v, %d", i,
				s.Remaining, s.Retry, s.Reset-epoch/1e6, m.remaining, m.retry, m.reset)
		}
	}
}

func TestStateOfAnUntouchedBucket(t *testing.T) {
	c := NewCharge("b", mustParse(t, "10/1m cost 3"), 3)
	want := State{Bucket: "b", Limit: 10, Remaining: 10, Requests: 3, Reset: epoch / 1e6}
	if got := c.State(Level{}, epoch, true); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNewChargeBringsIntoBounds(t *testing.T) {
	tests := []struct {
		name  string
		limit Limit
		cost  int64
	}{
		{"zero", Limit{}, 0},
		{"negative", Limit{Count: -1, Period: -1, Burst: -1}, -1},
		{"huge", Limit{Count: 1 << 62, Period: 1 << 62, Burst: 1 << 62}, 1 << 62},
		{"slow with a huge burst", Limit{Count: 1, Period: maxPeriod, Burst: maxTokens}, 1},
		{"cost above the burst", Limit{Count: 5, Period: time.Second, Burst: 2}, 5},
	}
	for _, tt := range tests {
		c := NewCharge("b", tt.limit, tt.cost)
		if c.Unit < 1 || c.Drain < 1 || c.Cost < c.Unit || c.Cost > c.Capacity || c.Capacity > maxCapacity || c.Capacity%c.Unit != 0 {
			t.Errorf("%s: %+v", tt.name, c)
		}
		if _, ok := c.Decide(Level{}, epoch); !ok {
			t.Errorf("%s: the first request does not fit", tt.name)
		}
	}
}

var anyLimit = rapid.Custom(func(t *rapid.T) Limit {
	l := Limit{
		Count:  rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, maxTokens)).Draw(t, "count"),
		Period: time.Second * time.Duration(rapid.OneOf(rapid.Int64Range(1, 120), rapid.Int64Range(1, 31*86400)).Draw(t, "period")),
	}
	l.Burst = rapid.OneOf(rapid.Just(l.Count), rapid.Int64Range(1, l.Count)).Draw(t, "burst")
	return l
})

// The promise: in no interval of length t are more than burst + rate x t
// requests accepted, at whatever moments they arrive. The model checks every
// interval.
func TestNeverMoreThanPromised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLimit.Draw(t, "limit")
		cost := rapid.Int64Range(1, min(l.Burst, 7)).Draw(t, "cost")
		c := NewCharge("b", l, cost)
		step := l.Period.Microseconds()/l.Count + 1
		steps := rapid.SliceOfN(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, step), rapid.Int64Range(0, 20*step)), 1, 60).Draw(t, "steps")
		now, level := int64(epoch), Level{}
		var accepted []int64
		for _, d := range steps {
			now += d
			next, ok := c.Decide(level, now)
			s := c.State(next, now, ok)
			if s.Remaining < 0 || s.Remaining > s.Limit || s.Requests < 0 || ok != (s.Retry == 0) {
				t.Fatalf("state %+v of an answer %v", s, ok)
			}
			if !ok { // the wait is exact to the microsecond
				wait := s.Retry.Microseconds()
				if _, early := c.Decide(level, now+wait-1); early {
					t.Fatalf("fits a microsecond before %v", s.Retry)
				}
				if _, due := c.Decide(level, now+wait); !due {
					t.Fatalf("does not fit after %v", s.Retry)
				}
				continue
			}
			level = next
			accepted = append(accepted, now)
			for i, from := range accepted {
				spent := float64(cost) * float64(len(accepted)-i)
				if promise := float64(l.Burst) + rate(l)*float64(now-from); spent > promise*(1+1e-12) {
					t.Fatalf("%v tokens in %d µs, promised %v", spent, now-from, promise)
				}
			}
		}
	})
}

// A spent bucket gains n tokens in the time of n tokens at its rate, for every
// limit that ParseLimit accepts.
func TestGivesWhatIsPromised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLimit.Draw(t, "limit")
		c := NewCharge("b", l, 1)
		level, now := Level{Used: c.Capacity, At: epoch, Unit: c.Unit}, int64(epoch)
		n := min(l.Burst, 50)
		now += int64(float64(n)/rate(l)*(1+1e-6)) + 1
		for range n {
			var ok bool
			if level, ok = c.Decide(level, now); !ok {
				t.Fatalf("%v does not give %d tokens in %d µs", l, n, now-epoch)
			}
		}
	})
}

// A change of the limit keeps the tokens spent, rounded up, up to the capacity.
func TestChangeKeepsTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := anyLimit.Draw(t, "from"), anyLimit.Draw(t, "to")
		a, b := NewCharge("b", from, 1), NewCharge("b", to, 1)
		spent := rapid.Int64Range(0, from.Burst).Draw(t, "spent")
		got := b.at(Level{Used: spent * a.Unit, At: epoch, Unit: a.Unit}, epoch)
		want := min(spent*b.Unit, b.Capacity)
		if spent <= to.Burst && (got.Used < want || got.Used > want+1+want>>50) || got.Used > b.Capacity {
			t.Fatalf("%v to %v: %d tokens are %d units, want %d", from, to, spent, got.Used, want)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	c := NewCharge("b", mustParse(b, "600/1m"), 1)
	var level Level
	now := int64(epoch)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		next, ok := c.Decide(level, now)
		if s := c.State(next, now, ok); s.Remaining < 0 {
			b.Fatal(s)
		}
		level = next
	}
}
