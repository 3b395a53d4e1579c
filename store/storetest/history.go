package storetest

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// testHistory compares backend and model over random histories of requests,
// changes, passing time, ends and new starts. All histories use one backend, and
// each has its own keys.
func testHistory(t *testing.T, open Factory) {
	w := newWorld(t, open)
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{world: &world{TB: rt, Setup: w.Setup, model: newModel()}, t: t}
		h.model.floor = w.model.floor // the floor belongs to the backend
		defer func() { w.model.floor = h.model.floor }()
		for range 2 {
			h.records = append(h.records, h.newKey())
		}
		for range historyBuckets {
			h.limits = append(h.limits, rapid.SampledFrom(historyLimits).Draw(rt, "limit"))
		}
		actions := map[string]func(*rapid.T){
			"settle":  h.settleAny,
			"settle2": h.settleAny, // most steps are requests
			"settle3": h.settleAny,
			"change":  h.changeAny,
			"delete":  h.deleteAny,
			"reopen":  h.reopenAny,
			"":        h.check,
		}
		if w.Advance != nil {
			actions["wait"] = h.wait
		}
		if w.RaiseFloor != nil {
			actions["lose"] = h.loseAny
		}
		rt.Repeat(actions)
	})
}

// A history is a world with the records as its callers know them.
type history struct {
	*world
	t       *testing.T
	records []*store.Record // as last written; a lock may have changed them since
	nonces  [][16]byte
	// limits are those of the buckets. They do not change. A backend may forget
	// a bucket that is empty under its limit, and the contract leaves open what
	// the level of such a bucket means under another limit.
	limits []string
}

var historyBuckets = []string{"issue_card", "total", "get_card"}

var historyLimits = []string{"1/1d", "3/1d", "3/1d cost 2", "50/1d", "7/12h burst 2"}

// historyClients are five holders.
var historyClients = []netip.Addr{
	{}, netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("::ffff:192.0.2.7"), netip.MustParseAddr("192.0.2.8"),
	netip.MustParseAddr("2001:db8:1:2::1"), netip.MustParseAddr("2001:db8:1:2::2"), netip.MustParseAddr("2001:db8:1:3::1"),
}

// settleAny settles a request with random faults.
func (h *history) settleAny(rt *rapid.T) {
	h.TB = rt
	r := rapid.SampledFrom(h.records).Draw(rt, "key")
	if stored := h.model.key(r.ID).record; stored != nil && rapid.IntRange(0, 9).Draw(rt, "judged now") > 0 {
		r = stored
	}
	c := h.claim(r)
	c.Nonce = h.anyNonce(rt)
	c.From = auth.Holder(rapid.SampledFrom(historyClients).Draw(rt, "from"))
	for _, rule := range []auth.Rules{auth.RuleIP, auth.RuleTimestamp, auth.RuleBodyHash, auth.RuleSignature, auth.RuleScope} {
		if rapid.IntRange(0, 5).Draw(rt, "fails") == 0 {
			c.Failed |= rule
		}
	}
	c.Timestamp += rapid.SampledFrom([]int64{0, 0, 0, -301, -300, -299, -20, 20, 299, 300, 301}).Draw(rt, "offset")
	c.ReplayFloorAhead = rapid.SampledFrom([]time.Duration{5 * time.Second, 0, 1500 * time.Millisecond}).Draw(rt, "floor ahead")
	c.LockAfter = rapid.IntRange(1, 9).Draw(rt, "lock after")
	c.LockDuration = rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(rt, "lock duration")
	c.LockCounts = rapid.SampledFrom([]auth.Rules{0, 0, auth.RuleIP, auth.RuleNonce | auth.RuleTimestamp}).Draw(rt, "lock counts")
	c.DryRun = rapid.IntRange(0, 7).Draw(rt, "dry run") == 0
	c.LimitsDryRun = rapid.IntRange(0, 7).Draw(rt, "limits dry run") == 0
	c.BodyDropped = rapid.IntRange(0, 7).Draw(rt, "body dropped") == 0
	c.SecretVersion = rapid.IntRange(0, 1).Draw(rt, "secret")
	c.Charges = h.anyCharges(rt)
	if h.model.unsettled(c) {
		c.Nonce = nonce()
	}
	h.settle(c)
}

func (h *history) anyNonce(rt *rapid.T) [16]byte {
	if len(h.nonces) > 0 && rapid.Bool().Draw(rt, "nonce seen before") {
		return rapid.SampledFrom(h.nonces).Draw(rt, "nonce")
	}
	n := nonce()
	h.nonces = append(h.nonces, n)
	return n
}

func (h *history) anyCharges(rt *rapid.T) (charges []ratelimit.Charge) {
	for i, bucket := range historyBuckets {
		if len(charges) < ratelimit.MaxCharges && rapid.Bool().Draw(rt, "bucket") {
			charges = append(charges, charge(h.world, bucket, h.limits[i]))
		}
	}
	return charges
}

// changeAny changes a record, or creates one for a new key.
func (h *history) changeAny(rt *rapid.T) {
	h.TB = rt
	i := rapid.IntRange(0, len(h.records)-1).Draw(rt, "key")
	r := h.records[i].Clone()
	opt := store.PutOptions{ClearFailures: rapid.Bool().Draw(rt, "clear failures")}
	if stored := h.model.key(r.ID).record; stored != nil {
		r = stored.Clone()
		opt.Expect = r.Revision
	}
	r.Revision = random()
	r.Lock = nil
	r.Tenant = random()
	h.put(r, opt)
	h.records[i] = r
}

func (h *history) deleteAny(rt *rapid.T) {
	h.TB = rt
	r := rapid.SampledFrom(h.records).Draw(rt, "key")
	stored := h.model.key(r.ID).record
	if stored == nil || rapid.IntRange(0, 3).Draw(rt, "keep") > 0 {
		return
	}
	h.delete(stored)
}

// reopenAny sometimes ends the backend and starts it again.
func (h *history) reopenAny(rt *rapid.T) {
	h.TB = rt
	if rapid.IntRange(0, 19).Draw(rt, "go on") == 0 {
		h.reopen(h.t, rapid.SampledFrom([]Ending{Closed, Crashed}).Draw(rt, "ending"))
	}
}

// loseAny sometimes raises the replay floor.
func (h *history) loseAny(rt *rapid.T) {
	h.TB = rt
	if rapid.IntRange(0, 9).Draw(rt, "keep") == 0 {
		h.raiseFloor(h.t, h.Now().Add(rapid.SampledFrom([]time.Duration{-time.Minute, 0, 1234 * time.Microsecond}).Draw(rt, "floor")))
	}
}

func (h *history) wait(rt *rapid.T) {
	h.Advance(rapid.SampledFrom([]time.Duration{
		time.Second, 20 * time.Second, 5 * time.Minute, 311 * time.Second, 11 * time.Minute, time.Hour,
	}).Draw(rt, "for"))
}

// check compares everything that can be read.
func (h *history) check(rt *rapid.T) {
	h.TB = rt
	for _, r := range h.records {
		if h.model.key(r.ID).record != nil {
			h.get(r.ID)
		}
	}
}

// testLockHistory compares backend and model over random histories of one key whose
// requests are accepted or fail by their signature, from three holders.
func testLockHistory(t *testing.T, open Factory) {
	w := newWorld(t, open)
	rapid.Check(t, func(rt *rapid.T) {
		h := &world{TB: rt, Setup: w.Setup, model: w.model}
		r := h.newKey()
		lockAfter := rapid.SampledFrom([]int{1, 2, 3, 8, 8, 50, 60}).Draw(rt, "lock after")
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			c := h.claim(r)
			c.From, c.LockAfter = auth.Holder(rapid.SampledFrom(historyClients[2:6]).Draw(rt, "from")), lockAfter
			times := 1
			switch rapid.IntRange(0, 12).Draw(rt, "step") { // above 8: accepted
			case 0:
				c.DryRun = true
			case 1:
				c.Failed, c.DryRun = auth.RuleSignature, true
			case 2, 3, 4, 5, 6:
				c.Failed, times = auth.RuleSignature, rapid.IntRange(1, 1+lockAfter*2/3).Draw(rt, "times")
			case 7:
				if h.Advance != nil {
					h.Advance(rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, 10 * time.Second, 9 * time.Minute, 10 * time.Minute, 610 * time.Second}).Draw(rt, "for"))
				}
				continue
			case 8:
				if rapid.IntRange(0, 9).Draw(rt, "go on") == 0 {
					h.reopen(t, Crashed)
				}
				continue
			}
			for range times {
				if v := h.settle(c); v.Locked {
					r = h.model.key(r.ID).record.Clone()
					r.Lock = nil
					h.change(r, store.PutOptions{ClearFailures: true})
					break
				}
				c.Nonce = nonce()
			}
		}
	})
}
