package request

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// limitHeaders are the headers of an answer that show limits.
type limitHeaders struct{ limit, remaining, reset int64 }

func limitsOf(t testing.TB, r *harness.Response) limitHeaders {
	t.Helper()
	number := func(name string) int64 {
		values := r.Header.Values(name)
		if len(values) != 1 {
			t.Errorf("%s of %s is %q, want one value", name, r, values)
			return -1
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || n < 0 {
			t.Errorf("%s of %s is %q", name, r, values[0])
		}
		return n
	}
	return limitHeaders{number("X-Ratelimit-Limit"), number("X-Ratelimit-Remaining"), number("X-Ratelimit-Reset")}
}

// wantLeft checks Limit and Remaining.
func wantLeft(t testing.TB, r *harness.Response, limit, remaining int64) {
	t.Helper()
	if got := limitsOf(t, r); got.limit != limit || got.remaining != remaining {
		t.Errorf("%s says limit %d and %d left, want %d and %d", r, got.limit, got.remaining, limit, remaining)
	}
}

func noLimitHeaders(t testing.TB, r *harness.Response) {
	t.Helper()
	for name := range r.Header {
		if strings.Contains(strings.ToLower(name), "ratelimit") || name == "Retry-After" {
			t.Errorf("%s has the header %s", r, name)
		}
	}
}

// limited checks a refusal by a limit and returns the seconds in Retry-After.
func limited(t testing.TB, r *harness.Response) int64 {
	t.Helper()
	harness.WantRefused(t, r, http.StatusTooManyRequests, "RATE_LIMITED")
	if got := limitsOf(t, r); got.remaining != 0 {
		t.Errorf("%s says that %d are left", r, got.remaining)
	}
	seconds, err := strconv.ParseInt(r.Header.Get("Retry-After"), 10, 64)
	if err != nil || seconds < 1 {
		t.Errorf("Retry-After of %s is %q", r, r.Header.Get("Retry-After"))
	}
	return seconds
}

// TestLimitIsExact sends 200 requests at once against a limit of 50 a day.
func TestLimitIsExact(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit get_card 50/1d"})
	key := g.NewKey(nil)
	requests := make([]*harness.Request, 200)
	for i := range requests {
		requests[i] = key.Get()
	}
	answers := g.AtOnce(t, requests)
	if got := harness.Statuses(answers); got[http.StatusOK] != 50 || got[http.StatusTooManyRequests] != 150 {
		t.Errorf("of 200 requests against 50 a day the answers are %v", got)
	}
	var left []int64
	for _, r := range answers {
		if r.Status == http.StatusOK {
			left = append(left, limitsOf(t, r).remaining)
		} else {
			limited(t, r)
		}
	}
	slices.Sort(left)
	for i, n := range left {
		if n != int64(i) {
			t.Fatalf("Remaining of the accepted requests: %v, want 0 to 49 once each", left)
		}
	}
	if got := len(u.Took()); got != 50 {
		t.Errorf("the upstream received %d requests", got)
	}
	// The counters survive a reload; another operation has its own bucket.
	s := g.Site
	s.Global += "\nlock_after 40"
	g.Reload(s)
	limited(t, g.Send(t, key.Get()))
	harness.WantAccepted(t, g.Send(t, key.Post()))
	wantLeft(t, g.Send(t, g.NewKey(nil).Get()), 50, 49)
}

// TestJunkSpendsNothing sends requests that are refused before the limits, then
// checks that all tokens are left.
func TestJunkSpendsNothing(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit get_card 5/1d\nlock_after 1000"})
	key := g.NewKey(harness.Fields{"scopes": []string{"cards:read"}})
	for _, r := range g.Series(t, key.Forged(100)) {
		harness.WantUnauthorized(t, r, harness.WrongSignature)
		noLimitHeaders(t, r)
	}
	used := key.Get()
	wantLeft(t, g.Send(t, used), 5, 4)
	got := g.Send(t, used)
	harness.WantUnauthorized(t, got, harness.Replayed)
	noLimitHeaders(t, got)
	got = g.Send(t, key.Post())
	harness.WantRefused(t, got, http.StatusForbidden, "FORBIDDEN")
	noLimitHeaders(t, got)
	noLimitHeaders(t, g.Send(t, key.RequestAt(time.Now().Add(-time.Hour), "GET", "/api/v1/cards/c1", "")))

	// Requests that end with an error of the upstream do spend.
	u.Replies(harness.Answer(500, "oops", "X-RateLimit-Remaining: 77"))
	got = g.Send(t, key.Get())
	if got.Status != 500 {
		t.Errorf("answer is %s", got)
	}
	wantLeft(t, got, 5, 3)
	u.Close()
	got = g.Send(t, key.Get())
	harness.WantRefused(t, got, http.StatusBadGateway, "UPSTREAM_ERROR")
	wantLeft(t, got, 5, 2)
}

// TestBucketsAllOrNone fills one of two buckets: the refused request leaves
// the other one untouched.
func TestBucketsAllOrNone(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit get_card 2/1d\nlimit get_card_balance 9/1d\nlimit total 4/1d"})
	key := g.NewKey(nil)
	balance := func() *harness.Request { return key.Request(http.MethodGet, "/api/v1/cards/c1/balance", "") }
	wantLeft(t, g.Send(t, key.Get()), 2, 1)
	wantLeft(t, g.Send(t, key.Get()), 2, 0)
	for range 10 {
		limited(t, g.Send(t, key.Get())) // get_card is full, total is not
	}
	wantLeft(t, g.Send(t, balance()), 4, 1) // total binds: three of four are spent
	wantLeft(t, g.Send(t, balance()), 4, 0)
	for range 10 {
		limited(t, g.Send(t, balance())) // total is full, get_card_balance is not
	}
	g.Change(key, harness.Fields{"limits": harness.Fields{"total": "100/1d"}})
	wantLeft(t, g.Send(t, balance()), 9, 6)
}

// TestRetryAfter sends again exactly after Retry-After.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit get_card 2/5s burst 1"})
	key := g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, key.Get()))
	for range 2 {
		var got *harness.Response
		var before time.Time
		harness.Eventually(t, "the bucket is empty", func() bool { // the machine may have slept meanwhile
			before, got = time.Now(), g.Send(t, key.Get())
			return got.Status != http.StatusOK
		})
		at := time.Now() // at or after the moment of the refusal
		seconds := limited(t, got)
		if seconds > 3 {
			t.Errorf("Retry-After is %d, want at most 3", seconds)
		}
		if reset := limitsOf(t, got).reset; reset < before.Unix() || reset > at.Unix()+4 {
			t.Errorf("X-RateLimit-Reset is %d between %d and %d", reset, before.Unix(), at.Unix())
		}
		time.Sleep(time.Until(at.Add(time.Duration(seconds) * time.Second)))
		harness.WantAccepted(t, g.Send(t, key.Get()))
	}
}

// TestDefaultLoosensNoBuiltInLimit sends to an operation with a row in the
// built-in table, to one without, and to one with a line of its own.
func TestDefaultLoosensNoBuiltInLimit(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{
		Upstream: u.Addr, Limits: harness.WithLimits, Extra: selfHandlers("", ""), Global: "limit default 90000/1d\nlimit list_transactions 100000/1d",
	})
	key := g.NewKey(nil)
	wantLeft(t, g.Send(t, key.Post()), 20, 19)
	wantLeft(t, g.Send(t, key.Get()), 90000, 89999)
	wantLeft(t, g.Send(t, key.Request(http.MethodGet, "/api/v1/transactions", "")), 100000, 99999)
	said := g.Send(t, key.Request(http.MethodGet, "/gateway/v1/key", "")).Body
	for _, limit := range []string{`"60/1m burst 20"`, `"90000/1d"`, `"100000/1d"`} {
		if !strings.Contains(said, limit) {
			t.Errorf("the view of the key has no limit %s: %s", limit, said)
		}
	}
}

// TestOverrides changes the limits of a key between two requests.
func TestOverrides(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit default 3/1d"})
	key := g.NewKey(nil)
	wantLeft(t, g.Send(t, key.Get()), 3, 2)
	g.Change(key, harness.Fields{"limits": harness.Fields{"get_card": "10/1d"}})
	wantLeft(t, g.Send(t, key.Get()), 10, 8) // spent tokens stay spent
	g.Change(key, harness.Fields{"limits": harness.Fields{"get_card": "2/1d burst 2"}})
	limited(t, g.Send(t, key.Get()))
	g.Change(key, harness.Fields{"limits": harness.Fields{"default": "20/1d"}})
	wantLeft(t, g.Send(t, key.Post()), 20, 19)
	g.Change(key, harness.Fields{"limits": harness.Fields{"issue_card": harness.Fields{"limit": "50/1d", "until": harness.Moment(time.Now().Add(time.Hour))}}})
	wantLeft(t, g.Send(t, key.Post()), 50, 48)
	g.Change(key, harness.Fields{"limits": harness.Fields{"issue_card": harness.Fields{"limit": "50/1d", "until": harness.Moment(time.Now().Add(-time.Hour))}}})
	wantLeft(t, g.Send(t, key.Post()), 20, 17) // the default of the key again
	for _, bad := range []any{"0/1m", "5/0s", "-1", "5", "5/1m cost 9", 7} {
		status, said := g.Admin(http.MethodPatch, "/card-gateway/keys/"+key.ID, "application/json", harness.JSONText(t, harness.Fields{"limits": harness.Fields{"get_card": bad}}))
		if status != http.StatusUnprocessableEntity {
			t.Errorf("the limit %v is answered %d %s", bad, status, said)
		}
	}
	status, said := g.Admin(http.MethodPatch, "/card-gateway/keys/"+key.ID, "application/json", `{"limits":{"no_such_operation":"5/1m"}}`)
	if status != http.StatusUnprocessableEntity || !strings.Contains(said, "no_such_operation") {
		t.Errorf("a limit of an unknown operation is answered %d %s", status, said)
	}
}
