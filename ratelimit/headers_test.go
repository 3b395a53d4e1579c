package ratelimit

import (
	"testing"
	"time"
)

func TestTightest(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name   string
		states []State
		want   int
	}{
		{"none", nil, -1},
		{"one", []State{{}}, 0},
		{"fewest further requests", []State{{Requests: 5}, {Requests: 3}, {Requests: 4}}, 1},
		{"requests count, not tokens", []State{{Remaining: 9, Requests: 1}, {Remaining: 3, Requests: 3}}, 0},
		{"tie: later reset", []State{{Requests: 3, Reset: 10}, {Requests: 3, Reset: 20}}, 1},
		{"tie in all: first", []State{{Requests: 3, Reset: 10}, {Requests: 3, Reset: 10}}, 0},
		{"refusing bucket before an empty one", []State{{Requests: 0, Reset: 90}, {Requests: 0, Retry: s}}, 1},
		{"longest wait", []State{{Retry: s}, {Retry: 2 * s}, {Requests: 7}}, 1},
		{"equal waits: later reset", []State{{Retry: s, Reset: 1}, {Retry: s, Reset: 2}}, 1},
	}
	for _, tt := range tests {
		if got := Tightest(tt.states); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	tests := []struct {
		wait time.Duration
		want int64
	}{{0, 0}, {-time.Second, 0}, {1, 1}, {time.Microsecond, 1}, {time.Second, 1}, {time.Second + time.Microsecond, 2}, {24 * time.Hour, 86400}}
	for _, tt := range tests {
		if got := RetryAfter(tt.wait); got != tt.want {
			t.Errorf("RetryAfter(%v) = %d, want %d", tt.wait, got, tt.want)
		}
	}
}

func TestAppendRateLimit(t *testing.T) {
	tests := []struct {
		limit  string
		spent  int // requests before
		after  time.Duration
		policy string
		state  string
	}{
		{"60/1m", 0, 0, `"b";q=60;w=60`, `"b";r=60;t=0`},
		{"60/1m", 10, 0, `"b";q=60;w=60`, `"b";r=50;t=1`},
		{"60/1m", 61, 0, `"b";q=60;w=60`, `"b";r=0;t=1`},
		{"50/1d", 50, time.Second, `"b";q=50;w=86400`, `"b";r=0;t=1727`},
		{"60/1m burst 10", 3, 0, `"b";q=10;w=10`, `"b";r=7;t=1`},
		{"7/1m burst 5", 0, 0, `"b";q=5;w=43`, `"b";r=5;t=0`},
		{"600/1s burst 10", 1, 0, `"b";q=600;w=1`, `"b";r=9;t=1`},
		{"3000/1m burst 10", 1, 0, `"b";q=50;w=1`, `"b";r=9;t=1`},
	}
	for _, tt := range tests {
		c := NewCharge("b", mustParse(t, tt.limit), 1)
		var level Level
		for range tt.spent {
			level, _ = c.Decide(level, epoch)
		}
		if got := string(AppendRateLimitPolicy(nil, []Charge{c})); got != tt.policy {
			t.Errorf("%s: policy %s, want %s", tt.limit, got, tt.policy)
		}
		s := c.State(level, epoch+tt.after.Microseconds(), true)
		if got := string(AppendRateLimit(nil, []State{s})); got != tt.state {
			t.Errorf("%s: state %s, want %s", tt.limit, got, tt.state)
		}
	}
	if got, want := string(AppendRateLimit(nil, []State{{Bucket: "a\"\\\né"}, {Bucket: "total"}})), `"a_____";r=0;t=0, "total";r=0;t=0`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
