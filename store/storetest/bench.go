package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// Bench measures Look and Levels beside Settle, for accepted requests of one key,
// without a limit and with as many as a claim may hold. The three run in turns. Bench
// reports the median of the time of Settle in nanoseconds, and the medians of the
// ratios to it.
//
//	go test ./store/file ./store/redis -run - -bench Reads -benchtime 300x
func Bench(b *testing.B, backend store.Backend) {
	w := &world{TB: b, Setup: &Setup{Backend: backend, Now: time.Now}, model: newModel()}
	for _, limits := range []int{0, ratelimit.MaxCharges} {
		b.Run(fmt.Sprintf("limits %d", limits), func(b *testing.B) {
			r := w.newKey()
			var charges []ratelimit.Charge
			for i := range limits {
				charges = append(charges, charge(w, fmt.Sprint("bucket", i), "1000000000/1s"))
			}
			var settle, look, levels []float64
			for b.Loop() {
				claims := w.claims(r, 100, func(c *store.Claim) { c.Charges = charges })
				looked := perCall(b, claims, func(c *store.Claim) error { return accepted(backend.Look(ctx, c)) })
				settled := perCall(b, claims, func(c *store.Claim) error { return accepted(backend.Settle(ctx, c)) })
				read := perCall(b, claims, func(c *store.Claim) error {
					_, err := backend.Levels(ctx, c.KeyID, c.Charges, c.Now)
					return err
				})
				settle, look, levels = append(settle, settled), append(look, looked/settled), append(levels, read/settled)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(settle), "settle-ns")
			b.ReportMetric(median(look), "look-ratio")
			b.ReportMetric(median(levels), "levels-ratio")
		})
	}
}

// perCall returns the nanoseconds of one call.
func perCall(b *testing.B, claims []*store.Claim, call func(*store.Claim) error) float64 {
	b.Helper()
	begun := time.Now()
	for _, c := range claims {
		if err := call(c); err != nil {
			b.Fatal(err)
		}
	}
	return float64(time.Since(begun).Nanoseconds()) / float64(len(claims))
}

// accepted returns an error unless a claim was accepted, or would be.
func accepted(v store.Verdict, err error) error {
	if err == nil && (v.Stale || v.Reason != auth.Accepted) {
		err = fmt.Errorf("%v (stale %v), want accepted", v.Reason, v.Stale)
	}
	return err
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
