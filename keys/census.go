package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// A Census counts the keys.
type Census struct {
	// Keys counts the keys by status. It has an entry for every member of
	// [Statuses].
	Keys map[string]int `json:"keys"`
	// Expiring counts the active keys that expire within "1d", "7d" and "30d";
	// a key that expires within a day counts in all three.
	Expiring map[string]int `json:"expiring"`
	// SealedBy counts the stored secrets by the master key that seals them, in the
	// order in which the master keys are given; last those of a master key that
	// was not given, if there are any.
	SealedBy []SealedBy `json:"sealed_by"`
	// Seals counts the keys by the state of the seal of their record. It has an
	// entry for every member of [SealStates].
	Seals map[string]int `json:"seals"`
}

// SealedBy are the secrets under one master key.
type SealedBy struct {
	MasterKey int    `json:"master_key"` // its line; 0: it was not given
	Tag       string `json:"tag,omitempty"`
	Secrets   int    `json:"secrets"`
}

// censusPage is the number of records in one read when all are needed.
const censusPage = 500

// Census reads all keys and counts them, and learns their versions and ids. Records are read in pages. A key that
// is made or deleted during the census may or may not be counted. With an error
// there are no numbers at all, so that nobody takes what was not counted for none.
func (k *Service) Census(ctx context.Context) (Census, error) {
	c := Census{Keys: zeros(Statuses()...), Expiring: zeros("1d", "7d", "30d"), Seals: zeros(SealStates()...)}
	now := k.opt.Clock()
	sealed := make([]int, k.ring.Len()+1)
	own := k.ids.Load()
	err := eachRecord(ctx, k.backend, func(d *store.DamagedError) {
		k.foreign.learn(own, d.ID)
		k.reportForged(damagedRecord(d))
		c.Keys[StatusUnreadable]++
		c.Seals[SealRefused]++
	}, func(r *store.Record) error {
		k.foreign.learn(own, r.ID)
		for i := range r.Secrets {
			sealed[k.ring.Sealer(r.Secrets[i].Sealed)]++
		}
		status := statusOf(r, now)
		if _, err := k.authentic(ctx, r); err == nil || errors.Is(err, ErrForged) {
			c.Seals[sealView(r, err).State]++
			if err != nil {
				status = StatusForged
			}
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		c.Keys[status]++
		if status != StatusActive || r.ExpiresAt.IsZero() {
			return nil
		}
		const day = 24 * time.Hour
		for within, span := range map[string]time.Duration{"1d": day, "7d": 7 * day, "30d": 30 * day} {
			if r.ExpiresAt.Sub(now) <= span {
				c.Expiring[within]++
			}
		}
		return nil
	})
	if err != nil {
		return Census{}, err
	}
	c.SealedBy = k.sealedBy(sealed)
	return c, nil
}

// sealedBy returns the counts by the indices of the master keys.
func (k *Service) sealedBy(counts []int) (list []SealedBy) {
	for i := range k.ring.Len() {
		list = append(list, SealedBy{MasterKey: i + 1, Tag: k.ring.Tag(i), Secrets: counts[i]})
	}
	if lost := counts[k.ring.Len()]; lost > 0 {
		list = append(list, SealedBy{Secrets: lost})
	}
	return list
}

// zeros returns a count of 0 for each name.
func zeros(names ...string) map[string]int {
	counts := make(map[string]int)
	for _, name := range names {
		counts[name] = 0
	}
	return counts
}

// A count is a census for all gateways of a store: the first that finds it outdated
// counts again. In the store it is sealed under the master key. Whoever can write there
// can only remove it or put an older one back.
type count struct {
	Census
	At   time.Time `json:"at"`
	Next time.Time `json:"next"` // when another count is due
	// Claimed: another gateway has begun, and replaces this value when it has counted.
	Claimed bool `json:"claimed,omitempty"`
}

// keys returns how many keys were counted.
func (c *Census) keys() int {
	return c.Seals[SealSealed] + c.Seals[SealUnsealed] + c.Seals[SealRefused]
}

// counts are the last count, and when this gateway itself reads all keys. That depends
// on no shared value: as it reads, it learns versions and finds forged records.
type counts struct {
	mu      sync.Mutex    // held by Recount; it guards all but last
	pause   time.Duration // after the last reading
	ownNext time.Time     // when this gateway must read all keys
	retryAt time.Time     // after a reading that failed
	stored  []byte        // the shared count as it was last read

	last atomic.Pointer[count]
}

const (
	// metaCensus names the shared count.
	metaCensus = "census"

	// A count comes countPause after the one before, or keyPause for each key, whichever
	// is more: to read a key takes about a hundredth of keyPause.
	countPause = 30 * time.Second
	keyPause   = 1500 * time.Microsecond
	// ownPauses is after how many pauses a gateway reads all keys although others
	// have counted them.
	ownPauses = 10
	// manyKeys are too many to count them for each who asks.
	manyKeys = 5000
)

// Counted returns the last counts that Recount has made or taken over, without numbers
// before the first.
func (k *Service) Counted() Census { return k.counts.last.Load().Census }

// Recount reads and counts all keys if that is due for all gateways of the store, or for
// this one, or if this one may have missed changes. Call it about once a second. After
// an error of the backend the next call tries again, after a reading that failed in half
// a minute.
func (k *Service) Recount(ctx context.Context) error {
	c := &k.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	now := k.opt.Clock()
	last := c.last.Load()
	switch must := k.foreign.missed() || !now.Before(c.ownNext); {
	case now.Before(c.retryAt):
		return nil
	case must:
		if err := k.FollowChanges(ctx); err != nil { // from here on
			return err
		}
	case now.Before(last.Next) && !last.Claimed:
		return nil
	case now.Before(last.Next):
		return k.takeOver(ctx)
	case !k.local:
		if err := k.takeOver(ctx); err != nil || now.Before(c.last.Load().Next) {
			return err
		}
		claim := *c.last.Load()
		claim.Next, claim.Claimed = now.Add(c.pause), true
		if ours, err := k.share(ctx, &claim); err != nil || !ours && now.Before(c.last.Load().Next) {
			return err
		}
	}
	err := k.count(ctx)
	if err != nil {
		c.retryAt = now.Add(countPause)
	}
	return err
}

// count reads all keys and shares their counts. Until the first reading has ended, the
// shared count is the last.
func (k *Service) count(ctx context.Context) (err error) {
	c, gaps := &k.counts, k.foreign.gaps.Load()
	if c.last.Load().At.IsZero() && !k.local {
		err = k.takeOver(ctx)
	}
	var census Census
	if err == nil {
		census, err = k.Census(ctx)
	}
	if err != nil {
		return err
	}
	now := k.opt.Clock()
	c.pause = max(countPause, keyPause*time.Duration(census.keys()))
	c.ownNext = now.Add(ownPauses * c.pause)
	k.foreign.covered.Store(gaps)
	made := &count{Census: census, At: now.UTC(), Next: now.Add(c.pause).UTC()}
	c.last.Store(made)
	if k.local {
		return nil
	}
	if err = k.takeOver(ctx); err == nil {
		_, err = k.share(ctx, made)
	}
	return err
}

// share replaces the shared count that was read last. It returns false if somebody else
// has replaced it first, and takes over that one.
func (k *Service) share(ctx context.Context, made *count) (bool, error) {
	text, err := json.Marshal(made)
	if err != nil {
		return false, err
	}
	sealed := k.ring.Seal(text, metaCensus)
	stored, err := k.replaceMeta(ctx, metaCensus, k.counts.stored, sealed)
	if err == nil {
		k.adopt(stored)
	}
	return bytes.Equal(stored, sealed), err
}

// takeOver reads the shared count. Like every reading it fails on a store that was
// emptied, which only a change by an operator puts into use again. So it precedes share.
func (k *Service) takeOver(ctx context.Context) error {
	stored, err := k.optionalMeta(ctx, metaCensus)
	if err == nil {
		k.adopt(stored)
	}
	return err
}

// adopt makes a shared count the last one if it can be opened and is not older. The master
// keys are named by their lines on this gateway.
func (k *Service) adopt(stored []byte) {
	k.counts.stored = stored
	c := new(count)
	text, _, err := k.ring.Open(stored, metaCensus)
	if err != nil || json.Unmarshal(text, c) != nil || c.At.Before(k.counts.last.Load().At) {
		return
	}
	sealed := make([]int, k.ring.Len()+1)
	for _, by := range c.SealedBy {
		line := 0
		for line < k.ring.Len() && k.ring.Tag(line) != by.Tag {
			line++
		}
		sealed[line] += by.Secrets
	}
	c.SealedBy = k.sealedBy(sealed)
	k.counts.last.Store(c)
}

// eachRecord calls f for every record of a backend until f returns an error, and damaged
// for every one that cannot be read.
func eachRecord(ctx context.Context, backend store.Backend, damaged func(*store.DamagedError), f func(*store.Record) error) error {
	for cursor := ""; ; {
		page, err := backend.List(ctx, cursor, censusPage)
		if err != nil {
			return err
		}
		for _, d := range page.Damaged {
			damaged(d)
		}
		for _, r := range page.Records {
			if err := f(r); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		cursor = page.Next
	}
}

// Status is the state of the store and its keys.
type Status struct {
	Store store.Status `json:"store"`
	Census
	// CountedAt is when the keys were counted; null: now.
	CountedAt *time.Time `json:"counted_at"`
	// Problem is the reason why the keys could not be counted; empty when they
	// were. With a problem the census is empty.
	Problem string `json:"problem,omitempty"`
}

// StoreStatus returns the state of the backend, without I/O.
func (k *Service) StoreStatus(ctx context.Context) store.Status { return k.backend.Status(ctx) }

// Status returns the state of the backend and the counts of the keys: those of the last
// [Service.Recount] if the keys are many, else it counts. It never fails: problems are part
// of the result.
func (k *Service) Status(ctx context.Context) Status {
	s := Status{Store: k.backend.Status(ctx)}
	if last := k.counts.last.Load(); last.keys() > manyKeys {
		s.Census, s.CountedAt = last.Census, optional(last.At)
		return s
	}
	var err error
	if s.Census, err = k.Census(ctx); err != nil {
		s.Problem = err.Error()
	}
	return s
}
