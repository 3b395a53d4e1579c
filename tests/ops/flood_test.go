package ops

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// pipeline sends requests over one connection, many at a time, and returns
// their statuses.
func pipeline(w *harness.Wire, texts []string, methods []string) ([]int, error) {
	const batch = 100
	var statuses []int
	for at := 0; at < len(texts); at += batch {
		end := min(at+batch, len(texts))
		_ = w.SetDeadline(time.Now().Add(harness.Patience))
		if _, err := io.WriteString(w, strings.Join(texts[at:end], "")); err != nil {
			return statuses, err
		}
		for _, method := range methods[at:end] {
			answer, err := w.Receive(method)
			if err != nil {
				return statuses, err
			}
			statuses = append(statuses, answer.Status)
		}
	}
	return statuses, nil
}

// junk returns a new request: everything that a client can choose is random. One
// in a hundred is signed with the key.
func junk(rng *rand.Rand, key harness.Credentials) *harness.Request {
	word := func(n int) string {
		const letters = "abcdefghijklmnopqrstuvwxyz234567"
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return string(b)
	}
	path := "/api/v1/" + []string{"", "cards/", "customers/", "CUSTOMERS/", "cards/" + word(8) + "/"}[rng.IntN(5)] + word(12)
	r := key.Request("GET", path+"?"+word(4)+"="+word(4), "")
	r.Add("X-Request-Id", word(20)).Add("Host", word(10)).Add("User-Agent", word(10))
	r.Add("X-Gateway-Operation", word(8)).Add("X-Gateway-Tenant", word(8))
	switch rng.IntN(100) {
	case 0:
		return r
	case 1:
		r.Target = "/api/v1//" + word(12)
	case 2:
		r.Method = strings.ToUpper(word(6))
	case 3:
		r.Drop("X-Nonce")
	case 4:
		r.Set("X-Timestamp", word(10))
	case 5, 6, 7, 8, 9:
		r.Set("X-API-Key", word(1+rng.IntN(60)))
	default:
		r.Set("X-API-Key", "ck_live_"+word(32))
	}
	return r
}

// TestNoSeriesFromOutside sends a hundred thousand requests with random key
// ids, paths, methods and headers. All labels of the series that they add come from
// closed sets.
func TestNoSeriesFromOutside(t *testing.T) {
	t.Parallel()
	const connections = 8
	each := harness.Rounds(12_500, 1000)
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Global: harness.CustomerOperations + "\nlock_after 1000000"})
	g.ImportKey(harness.Credentials{ID: "an-imported-id", Secret: "0123456789abcdef"}, nil)
	key := g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, key.Get()))
	before := g.Scrape(t)

	var answered sync.Map // status to *atomic.Int64
	var all sync.WaitGroup
	for number := range connections {
		w := g.Connect(t)
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(number)))
			for range each / 500 {
				texts, methods := make([]string, 500), make([]string, 500)
				for i := range texts {
					r := junk(rng, key)
					texts[i], methods[i] = r.Head(), r.Method
				}
				statuses, err := pipeline(w, texts, methods)
				if err != nil {
					t.Error(err)
					return
				}
				for _, status := range statuses {
					n, _ := answered.LoadOrStore(status, new(atomic.Int64))
					n.(*atomic.Int64).Add(1)
				}
			}
		})
	}
	all.Wait()
	total, byStatus := int64(0), make(map[any]int64)
	answered.Range(func(status, n any) bool {
		byStatus[status] = n.(*atomic.Int64).Load()
		total += byStatus[status]
		return true
	})
	if total != int64(connections*each) || byStatus[200] == 0 || byStatus[400] == 0 || byStatus[401] == 0 || byStatus[405] == 0 {
		t.Errorf("of %d requests %d were answered, by status: %v", connections*each, total, byStatus)
	}
	var after harness.Samples
	harness.Eventually(t, "all requests were counted", func() bool {
		after = g.Scrape(t)
		return after.Of("card_gateway_requests_total").Since(before).Sum() >= float64(total)
	})
	sets := closedSets(t)
	for _, series := range having(before, "card_gateway_requests_total", `outcome="accepted"`) {
		sets["operation"] = append(sets["operation"], matcher.FindStringSubmatch(series)[3])
	}
	for _, series := range after.Series() {
		if _, known := before[series]; known {
			continue
		}
		for _, m := range matcher.FindAllStringSubmatch(series, -1) {
			if m[1] != "le" && !slices.Contains(sets[m[1]], m[3]) {
				t.Errorf("a new series from outside: %s", series)
			}
		}
	}
	if got := after.Of("card_gateway_requests_total").Since(before).Sum(); got != float64(total) {
		t.Errorf("%v requests were counted, want %d", got, total)
	}
}

// TestRefusalLogIsSampled floods the gateway with junk: the log stays small,
// the metric counts all, and a rarer reason still has its line.
func TestRefusalLogIsSampled(t *testing.T) {
	t.Parallel()
	const flood = 5000
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	before := g.Scrape(t)
	texts := make([]string, flood)
	for i := range texts {
		texts[i] = harness.Credentials{ID: fmt.Sprint("nobody-", i), Secret: "x"}.Get().Head()
	}
	start := time.Now()
	statuses, err := pipeline(g.Connect(t), texts, slices.Repeat([]string{http.MethodGet}, flood))
	took := time.Since(start)
	if err != nil || len(statuses) != flood {
		t.Fatalf("%d answers of %d: %v", len(statuses), flood, err)
	}
	rare := g.NewKey(nil).Get().Forge().Set("X-Request-Id", "rare")
	harness.WantUnauthorized(t, g.Send(t, rare), harness.WrongSignature)
	g.Logged("default.log", `"logger":"card_gateway.refusals"`, `"request_id":"rare"`)
	g.WantCounted(t, before, harness.Samples{
		harness.RequestSeries("get_card", "unknown_key"): flood, harness.RequestSeries("get_card", "signature_mismatch"): 1,
	})
	written := strings.Count(g.ReadFile("default.log"), `"reason":"unknown_key"`)
	// 20 of each reason in each started second, then one in a thousand.
	most := 20*(int(took.Seconds())+2) + flood/1000
	if written < 20 || written > most {
		t.Errorf("%d refusals in %v left %d lines, want 20 to %d", flood, took, written, most)
	}
}
