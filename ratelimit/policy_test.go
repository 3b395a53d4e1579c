package ratelimit

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func parseAll(tb testing.TB, limits map[string]string) map[string]Limit {
	tb.Helper()
	all := make(map[string]Limit, len(limits))
	for name, text := range limits {
		all[name] = mustParse(tb, text)
	}
	return all
}

func overrides(tb testing.TB, limits string) Overrides {
	tb.Helper()
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(limits), &raw); err != nil {
		tb.Fatal(err)
	}
	o, err := ParseOverrides(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

func TestAppendCharges(t *testing.T) {
	type limits = map[string]string
	type charged struct {
		limit string
		cost  int64
	}
	tests := []struct {
		name       string
		configured limits
		key        string
		operation  charged
		total      charged
	}{
		{name: "nothing configured: the table", operation: charged{"60/1m burst 20", 1}},
		{name: "configured default is looser: the table", configured: limits{"default": "7/1s"}, operation: charged{"60/1m burst 20", 1}},
		{name: "configured default is tighter: no larger burst", configured: limits{"default": "59/1m"}, operation: charged{"59/1m burst 20", 1}},
		{name: "configured default has the rate of the table and a smaller burst", configured: limits{"default": "1/1s"}, operation: charged{"1/1s", 1}},
		{name: "configured default has the rate of the table and a larger burst", configured: limits{"default": "60/1m"}, operation: charged{"60/1m burst 20", 1}},
		{name: "configured default is tighter by its cost", configured: limits{"default": "7/1s cost 7", "total": "20/1s burst 40"}, operation: charged{"7/1s", 7}, total: charged{"20/1s burst 40", 7}},
		{name: "configured default has a cost and is looser", configured: limits{"default": "7/1s cost 2", "total": "20/1s"}, operation: charged{"60/1m burst 20", 1}, total: charged{"20/1s", 1}},
		{name: "configured operation", configured: limits{"default": "7/1m", "issue_card": "8/1s"}, operation: charged{"8/1s", 1}},
		{name: "another operation configured: the table", configured: limits{"get_card": "8/1s"}, operation: charged{"60/1m burst 20", 1}},
		{name: "key's default over the configured one", configured: limits{"default": "7/1m"}, key: `{"default":"9/1s"}`, operation: charged{"9/1s", 1}},
		{name: "key's default over the table", key: `{"default":"9/1s"}`, operation: charged{"9/1s", 1}},
		{name: "configured operation over key's default", configured: limits{"issue_card": "8/1s"}, key: `{"default":"9/1s"}`, operation: charged{"8/1s", 1}},
		{name: "key's operation over all", configured: limits{"issue_card": "8/1s"}, key: `{"default":"9/1s","issue_card":"10/1s"}`, operation: charged{"10/1s", 1}},
		{name: "total configured", configured: limits{"default": "7/1m", "total": "20/1s"}, operation: charged{"7/1m", 1}, total: charged{"20/1s", 1}},
		{name: "key's total", configured: limits{"default": "7/1m"}, key: `{"total":"30/1s"}`, operation: charged{"7/1m", 1}, total: charged{"30/1s", 1}},
		{name: "key's total over the configured", configured: limits{"default": "7/1m", "total": "20/1s"}, key: `{"total":"30/1s"}`, operation: charged{"7/1m", 1}, total: charged{"30/1s", 1}},
		{name: "cost goes to both", configured: limits{"issue_card": "8/1s cost 3", "total": "20/1s"}, operation: charged{"8/1s", 3}, total: charged{"20/1s", 3}},
		{name: "cost of the default", configured: limits{"default": "8/1m cost 2"}, operation: charged{"8/1m", 2}},
		{name: "override keeps the cost", configured: limits{"issue_card": "8/1s cost 3"}, key: `{"issue_card":"10/1s"}`, operation: charged{"10/1s", 3}},
		{name: "override sets the cost", configured: limits{"issue_card": "8/1s cost 3"}, key: `{"issue_card":"10/1s cost 1"}`, operation: charged{"10/1s", 1}},
		{name: "override too small for the cost", configured: limits{"issue_card": "8/1s cost 3", "total": "20/1s"}, key: `{"issue_card":"2/1s"}`, operation: charged{"2/1s", 2}, total: charged{"20/1s", 3}},
		{name: "until in the future", configured: limits{"default": "7/1m"}, key: `{"issue_card":{"limit":"9/1s","until":"2026-11-28T00:00:01Z"}}`, operation: charged{"9/1s", 1}},
		{name: "until now", configured: limits{"default": "7/1m"}, key: `{"issue_card":{"limit":"9/1s","until":"2026-11-28T01:00:00+01:00"}}`, operation: charged{"7/1m", 1}},
		{name: "expired total", configured: limits{"default": "7/1m", "total": "20/1s"}, key: `{"total":{"limit":"9/1s","until":"2020-01-01T00:00:00Z"}}`, operation: charged{"7/1m", 1}, total: charged{"20/1s", 1}},
		{name: "object without end", configured: limits{"default": "7/1m"}, key: `{"default":{"limit":"9/1s"}}`, operation: charged{"9/1s", 1}},
	}
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := NewPolicy(parseAll(t, tt.configured))
			if err != nil {
				t.Fatal(err)
			}
			var o Overrides
			if tt.key != "" {
				o = overrides(t, tt.key)
			}
			want := []Charge{NewCharge("issue_card", mustParse(t, tt.operation.limit), tt.operation.cost)}
			if tt.total.limit != "" {
				want = append(want, NewCharge("total", mustParse(t, tt.total.limit), tt.total.cost))
			}
			if got := p.AppendCharges(nil, "issue_card", o, now); !slices.Equal(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestAppendChargesAllocatesNothing(t *testing.T) {
	p, err := NewPolicy(parseAll(t, map[string]string{"issue_card": "60/1m burst 10", "total": "3000/1m"}))
	if err != nil {
		t.Fatal(err)
	}
	o := overrides(t, `{"issue_card":"70/1m","default":"10/1s"}`)
	now := time.Now()
	var states [MaxCharges]State
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		var room [MaxCharges]Charge
		charges := p.AppendCharges(room[:0], "issue_card", o, now)
		for i := range charges {
			level, ok := charges[i].Decide(Level{}, epoch)
			states[i] = charges[i].State(level, epoch, ok)
		}
		buf = AppendRateLimitPolicy(buf[:0], charges)
		buf = AppendRateLimit(buf[:0], states[:len(charges)])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNewPolicyRefuses(t *testing.T) {
	tests := []struct {
		limits map[string]Limit
		says   string
	}{
		{map[string]Limit{"total": {Count: 5, Period: time.Second, Burst: 5, Cost: 2}}, "limit total: total has no cost of its own"},
		{map[string]Limit{"total": {Count: 5, Period: time.Second, Burst: 5}, "a": {Count: 9, Period: time.Second, Burst: 9, Cost: 6}}, "limit a: a cost of 6 (a) never fits the burst of total, 5"},
		{map[string]Limit{"total": {Count: 5, Period: time.Second, Burst: 5}, "default": {Count: 9, Period: time.Second, Burst: 9, Cost: 6}}, "a cost of 6 (default) never fits"},
		{map[string]Limit{"default": {Count: 5}}, "limit default: count and burst"},
		{map[string]Limit{"a": {Count: 5, Burst: 5, Period: 1500 * time.Millisecond}}, "limit a: period 1.5s"},
		{map[string]Limit{"a": {Count: 5, Burst: 5, Period: time.Second, Cost: -1}}, "limit a: cost"},
	}
	for _, tt := range tests {
		if _, err := NewPolicy(tt.limits); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v: %v; want an error that says %q", tt.limits, err, tt.says)
		}
	}
}

func TestParseOverridesRefuses(t *testing.T) {
	tests := []struct{ limits, says string }{
		{`{"issue_card":"0/1m"}`, `"issue_card": limit "0/1m": count "0"`},
		{`{"issue_card":5}`, `found 5; expected a limit such as`},
		{`{"issue_card":null}`, `found null; expected a limit such as`},
		{`{"issue_card":[]}`, `found []; expected a limit such as`},
		{`{"issue_card":{}}`, `"limit" is missing`},
		{`{"issue_card":{"limit":null}}`, `"limit" is missing or not a string`},
		{`{"issue_card":{"Limit":"1/1s"}}`, `unknown member "Limit"`},
		{`{"issue_card":{"limit":"1/1s","burst":3}}`, `unknown member "burst"`},
		{`{"issue_card":{"limit":"1/1s","until":""}}`, `"until" is ""; expected RFC 3339`},
		{`{"issue_card":{"limit":"1/1s","until":"2026-11-28"}}`, `"until" is "2026-11-28"; expected RFC 3339`},
		{`{"issue_card":{"limit":"1/1s","until":1}}`, `"until" is not a string`},
		{`{"issue_card":{"limit":"1/1s","until":null}}`, `"until" is not a string`},
		{`{"issue_card":{"limit":"1/1s","until":"0001-01-01T00:00:00Z"}}`, `the zero time`},
		{`{"total":"5/1s cost 2"}`, `"total": total has no cost`},
		{`{"":"5/1s"}`, `"": expected the name`},
		{`{"b":"x","a":"y"}`, `"a"`},
	}
	for _, tt := range tests {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal([]byte(tt.limits), &raw); err != nil {
			t.Fatal(err)
		}
		if o, err := ParseOverrides(raw); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, %v; want an error that says %q", tt.limits, o, err, tt.says)
		}
	}
	if o, err := ParseOverrides(nil); o != nil || err != nil {
		t.Errorf("no limits: %v, %v", o, err)
	}
}

func FuzzParseOverrides(f *testing.F) {
	for _, s := range []string{`"60/1m burst 10"`, `{"limit":"60/1m","until":"2026-11-28T00:00:00Z"}`, `null`, `{`, `{"limit":"1/1s"}x`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := ParseOverrides(map[string]json.RawMessage{"default": raw})
		if err == nil && (o["default"].Limit.check() != nil || !json.Valid(raw)) {
			t.Fatalf("%s became %+v", raw, o)
		}
	})
}

// The table of the documentation is the table of the code.
func TestDefaultLimitsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/setting-limits.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		name, text := strings.Trim(cells[1], " `"), strings.Trim(cells[2], " `")
		l, found := DefaultLimits()[name]
		if !found || l.String() != text || len(strings.TrimSpace(cells[3])) < 20 {
			t.Errorf("documented as %q with a limit of %q and the reason %q; built in: %v, %v", name, text, cells[3], l, found)
		}
		rows++
	}
	if rows != len(DefaultLimits()) {
		t.Errorf("%d rows documented, %d built in", rows, len(DefaultLimits()))
	}
	for name, l := range DefaultLimits() {
		if again, err := ParseLimit(l.String()); err != nil || again != l {
			t.Errorf("%s: %v is no valid limit: %v", name, l, err)
		}
	}
}

func BenchmarkAppendCharges(b *testing.B) {
	p, err := NewPolicy(parseAll(b, map[string]string{"issue_card": "60/1m burst 10", "total": "3000/1m"}))
	if err != nil {
		b.Fatal(err)
	}
	o := overrides(b, `{"get_card":"70/1m"}`)
	now := time.Now()
	var room [MaxCharges]Charge
	b.ReportAllocs()
	for b.Loop() {
		if len(p.AppendCharges(room[:0], "issue_card", o, now)) != 2 {
			b.Fatal("want two charges")
		}
	}
}
