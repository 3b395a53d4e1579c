package forward

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestHealthMoments is a script of moments: what happens at each, and whether
// the issuer is out afterwards. Three failures within 10 s take it out for 10
// s.
func TestHealthMoments(t *testing.T) {
	t.Parallel()
	type moment struct {
		second float64
		what   string // fail, answer, claim, unknown
		taken  bool   // of fail: it takes the issuer out; of claim: it is granted
		out    bool   // afterwards
	}
	for name, script := range map[string][]moment{
		"three in a row":                {{0, "fail", false, false}, {1, "fail", false, false}, {2, "fail", true, true}, {11.9, "claim", false, true}},
		"an answer between":             {{0, "fail", false, false}, {1, "fail", false, false}, {2, "answer", false, false}, {3, "fail", false, false}, {4, "fail", false, false}},
		"too far apart":                 {{0, "fail", false, false}, {9, "fail", false, false}, {11, "fail", false, false}, {12, "fail", false, false}, {13, "fail", true, true}},
		"one request tries":             {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {10, "claim", true, true}, {10, "claim", false, true}, {11, "answer", false, false}, {11, "claim", true, false}},
		"and fails at once":             {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {10, "claim", true, true}, {11, "fail", true, true}, {20.9, "claim", false, true}, {21, "claim", true, true}},
		"and says nothing":              {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {10, "claim", true, true}, {11, "unknown", false, false}, {11, "claim", true, true}},
		"late failures do not extend":   {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {5, "fail", false, true}, {10, "claim", true, true}},
		"a late answer brings it back":  {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {5, "answer", false, false}},
		"after an answer it counts new": {{0, "fail", false, false}, {0, "fail", false, false}, {0, "fail", true, true}, {10, "claim", true, true}, {10, "answer", false, false}, {11, "fail", false, false}, {11, "fail", false, false}, {11, "fail", true, true}},
	} {
		h := &health{after: 3, span: 10 * time.Second}
		for i, m := range script {
			now := time.Unix(1000, 0).Add(time.Duration(m.second * float64(time.Second)))
			taken := false
			switch m.what {
			case "fail":
				taken = h.failed(now, fast)
			case "claim":
				taken = h.claim(now)
			case "answer":
				h.answered()
			case "unknown":
				h.unknown()
			}
			if out := h.out(now); out != m.out || taken != m.taken {
				t.Errorf("%s, moment %d (%s): out %v and %v, want %v and %v", name, i, m.what, out, taken, m.out, m.taken)
			}
		}
	}
	never := &health{after: -1, span: time.Second}
	for range 10 {
		if never.failed(time.Unix(0, 0), slow) {
			t.Error("an issuer is taken out although failures do not count")
		}
	}
}

// checked serves an issuer whose checks succeed while well is true. It counts
// the checks.
func checked(well *atomic.Bool, checks *atomic.Int32) func(*peerConn) {
	return func(c *peerConn) {
		for r := c.request(); r != nil; r = c.request() {
			switch {
			case r.URL.Path != "/ready":
				c.say(okAnswer)
			case well.Load():
				checks.Add(1)
				c.say("HTTP/1.1 204 OK\r\n\r\n")
			default:
				checks.Add(1)
				c.say("HTTP/1.1 503 " + canary + "\r\nContent-Length: 4\r\n\r\nsick")
			}
		}
	}
}

// TestActiveChecks takes an issuer out, and brings it back, by its answers to
// checks.
func TestActiveChecks(t *testing.T) {
	t.Parallel()
	clock := newClock()
	var well atomic.Bool
	var checks atomic.Int32
	p := newPeer(t, checked(&well, &checks))
	seen := &problems{}
	f, err := newForwarder(Options{
		Issuers: []Issuer{{Address: p.addr}}, Observer: seen.observer(), Now: clock.now,
		Check: &Check{Path: "/ready", Every: 5 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.issuers[0].shut()
	step := func(healthy bool, wantChecks int32) {
		t.Helper()
		well.Store(healthy)
		f.maintain(t.Context())
		if n := checks.Load(); n != wantChecks {
			t.Errorf("%d checks were made, want %d", n, wantChecks)
		}
	}
	step(true, 1)
	wantOK(t, get(f))
	step(false, 1)
	clock.add(5 * time.Second)
	step(false, 2)
	if got := get(f); kindOf(got.err) != KindAllOut || got.err.RetryAfter != 5*time.Second {
		t.Errorf("%+v, want all out until the next check", got.err)
	}
	clock.add(5 * time.Second)
	step(false, 3)
	if kinds := seen.kinds(); !slices.Equal(kinds, []Kind{KindCheck}) || !strings.Contains(seen.text(), "503") || strings.Contains(seen.text(), canary) {
		t.Errorf("the observer received %v, want one check:\n%s", kinds, seen.text())
	}
	clock.add(5 * time.Second)
	step(true, 4)
	wantOK(t, get(f))
	if n := p.conns.Load(); n != 1 {
		t.Errorf("%d connections, want checks and requests on one", n)
	}
}

// TestChecksRun waits for the checks of a running forwarder, and closes it
// during a check.
func TestChecksRun(t *testing.T) {
	t.Parallel()
	p := newPeer(t, speaks(""))
	f, err := New(Options{Issuers: []Issuer{{Address: p.addr}}, Check: &Check{Path: "/", Timeout: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a check arrived", func() bool { return p.requests.Load() == 1 })
	f.Close()
}

// TestObserverOfIssuers: each attempt is counted for its issuer, one that failed over to
// another too, checks and clients that have gone are not, and an issuer is out until it
// answers.
func TestObserverOfIssuers(t *testing.T) {
	t.Parallel()
	clock := newClock()
	p := newPeer(t, answers("HTTP/1.1 429 Slow Down\r\nContent-Length: 2\r\n\r\nok"))
	dead := newPeer(t, nil)
	dead.listener.Close()
	seen := &problems{}
	f, err := newForwarder(Options{Issuers: []Issuer{{Address: dead.addr}, {Address: p.addr}}, Policy: First, Observer: seen.observer(), Now: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	step := func(out int64, lost time.Duration) {
		t.Helper()
		clock.add(time.Second)
		f.maintain(t.Context())
		if seen.out.Load() != out || seen.lost != lost {
			t.Errorf("%d issuers are out, for %v in all; want %d and %v", seen.out.Load(), seen.lost, out, lost)
		}
	}
	step(0, 0)
	for range 3 {
		if got := get(f); got.status != 429 {
			t.Fatalf("%+v", got)
		}
	}
	step(1, 0)
	step(1, time.Second)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	want := []string{"dial", "429", "dial", "429", "dial", "429"}
	if fetchOf(gone, f, &Request{Method: "GET", Target: "/"}).status == 429 { // the answer was quicker than its end
		want = append(want, "429")
	}
	f.issuers[0].health.answered()
	step(0, 2*time.Second)
	step(0, 2*time.Second)
	if !slices.Equal(seen.came, want) {
		t.Errorf("counted are %v, want %v", seen.came, want)
	}
	if n := seen.fly.Load(); n != 0 {
		t.Errorf("%d requests are in flight", n)
	}
	f.issuers[0].health.down.Store(true)
	step(1, 2*time.Second)
	for _, is := range f.issuers {
		is.shut()
	}
	if n := seen.out.Load(); n != 0 {
		t.Errorf("%d issuers are out of a forwarder that was closed", n)
	}
}
