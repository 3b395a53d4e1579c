package ratelimit

import (
	"strings"
	"testing"
	"time"
)

func TestParseLimit(t *testing.T) {
	tests := []struct {
		text string
		want Limit
		form string // canonical, if it differs
	}{
		{text: "60/1m", want: Limit{Count: 60, Period: time.Minute, Burst: 60}},
		{text: "60/1m burst 10", want: Limit{Count: 60, Period: time.Minute, Burst: 10}},
		{text: "100/1m cost 5", want: Limit{Count: 100, Period: time.Minute, Burst: 100, Cost: 5}},
		{text: "60/1m burst 10 cost 5", want: Limit{Count: 60, Period: time.Minute, Burst: 10, Cost: 5}},
		{text: "1/1s", want: Limit{Count: 1, Period: time.Second, Burst: 1}},
		{text: "5/10s", want: Limit{Count: 5, Period: 10 * time.Second, Burst: 5}},
		{text: "50/1d", want: Limit{Count: 50, Period: 24 * time.Hour, Burst: 50}},
		{text: "1000000000/31d", want: Limit{Count: 1e9, Period: 31 * 24 * time.Hour, Burst: 1e9}},
		{text: "60/1m cost 1", want: Limit{Count: 60, Period: time.Minute, Burst: 60, Cost: 1}},
		{text: "60/60s", want: Limit{Count: 60, Period: time.Minute, Burst: 60}, form: "60/1m"},
		{text: "60/24h burst 60", want: Limit{Count: 60, Period: 24 * time.Hour, Burst: 60}, form: "60/1d"},
		{text: "1/90s burst 2", want: Limit{Count: 1, Period: 90 * time.Second, Burst: 2}},
	}
	for _, tt := range tests {
		got, err := ParseLimit(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("ParseLimit(%q) = %+v, %v; want %+v", tt.text, got, err, tt.want)
		}
		want := tt.form
		if want == "" {
			want = tt.text
		}
		if got.String() != want {
			t.Errorf("ParseLimit(%q).String() = %q, want %q", tt.text, got, want)
		}
	}
}

func TestParseLimitRefuses(t *testing.T) {
	const period, form = `expected a whole number and s, m, h or d, from 1s to 31d`, "expected COUNT/PERIOD [burst N] [cost N]"
	tests := []struct{ text, says string }{
		{"", form},
		{"60", form},
		{"-1", form},
		{"0/1m", `count "0"; expected a whole number from 1`},
		{"-1/1m", `count "-1"`},
		{"+5/1m", `count "+5"`},
		{"05/1m", `count "05"`},
		{"5e3/1m", `count "5e3"`},
		{"٣/1m", `count "٣"`},
		{"1000000001/1s", `count "1000000001"`},
		{"99999999999999999999/1s", `count "99999999999999999999"`},
		{"5/", period},
		{"5/0s", `period "0s"; ` + period},
		{"5/60", `period "60"; ` + period},
		{"5/s", `period "s"; ` + period},
		{"5/1ms", period},
		{"5/1w", period},
		{"5/01m", period},
		{"5/1.5h", period},
		{"5/32d", period},
		{"5/745h", period},
		{"5/1m/1s", period},
		{"5 /1m", form},
		{" 5/1m", form},
		{"5/1m ", "a space at the end"},
		{"5/1m  burst 2", form},
		{"5/1m burst", form},
		{"5/1m burst ", "a space at the end"},
		{"5/1m burst 0", `burst "0"`},
		{"5/1m burst 2 ", "a space at the end"},
		{"5/1m cost 2 burst 3", `found "burst 3"; ` + form},
		{"5/1m burst 3 burst 4", `found "burst 4"; ` + form},
		{"5/1m Burst 3", form},
		{"5/1m 3", form},
		{"5/1m cost 6", "a cost of 6 never fits a burst of 5"},
		{"60/1m burst 10 cost 11", "a cost of 11 never fits a burst of 10"},
		{"1/31d burst 1000", "more than 366 days"},
	}
	for _, tt := range tests {
		l, err := ParseLimit(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("ParseLimit(%q) = %+v, %v; want an error that says %q", tt.text, l, err, tt.says)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{"60/1m", "60/1m burst 10", "100/1m cost 5", "1/31d", "60/60s burst 60", "0/1m", "5/0s", "-1", "05/1m", "5/1m  burst 2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLimit(s)
		if err != nil {
			return
		}
		text := l.String()
		again, err := ParseLimit(text)
		if err != nil || again != l {
			t.Fatalf("%q is %+v, written %q, read back %+v, %v", s, l, text, again, err)
		}
		c := NewCharge("b", l, l.Cost)
		if c.Capacity != c.Unit*l.Burst || c.Capacity > maxCapacity || c.Cost > c.Capacity || c.Unit < 1 || c.Drain < 1 {
			t.Fatalf("%q gives the charge %+v", s, c)
		}
		if want, got := rate(l), float64(c.Drain)/float64(c.Unit); got > want*(1+1e-15) || got < want*(1-1e-6) {
			t.Fatalf("%q drains %g tokens per microsecond, want %g", s, got, want)
		}
	})
}

// rate is what a limit promises, in tokens per microsecond.
func rate(l Limit) float64 { return float64(l.Count) / float64(l.Period.Microseconds()) }
