package keys

import (
	"context"
	"errors"
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

// Census reads all keys and counts them. Records are read in pages. A key that
// is made or deleted during the census may or may not be counted. With an error
// there are no numbers at all, so that nobody takes what was not counted for none.
func (k *Service) Census(ctx context.Context) (Census, error) {
	c := newCensus()
	now := k.opt.Clock()
	own := k.ids.Load()
	sealed := make([]int, k.ring.Len()+1)
	err := each(ctx, k.backend, func(d *store.DamagedError) {
		if own != nil && !k.local {
			k.known.learn(own, d.ID)
		}
		k.reportForged(damagedRecord(d))
		c.Keys[StatusUnreadable]++
		c.Seals[SealRefused]++
	}, func(r *store.Record) error {
		if own != nil && !k.local {
			k.known.learn(own, r.ID) // also what a gateway of an earlier version has imported
		}
		for i := range r.Secrets {
			sealed[k.ring.sealer(r.Secrets[i].Sealed)]++
		}
		if err := k.countSeal(ctx, &c, r); err != nil {
			return err
		}
		status := statusOf(r, now)
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
	c.SealedBy = k.ring.sealedBy(sealed)
	return c, nil
}

func newCensus() Census {
	c := Census{Keys: make(map[string]int), Expiring: map[string]int{"1d": 0, "7d": 0, "30d": 0}, Seals: make(map[string]int)}
	for _, status := range Statuses() {
		c.Keys[status] = 0
	}
	for _, state := range SealStates() {
		c.Seals[state] = 0
	}
	return c
}

// countSeal counts the seal of a record, and remembers its document version.
func (k *Service) countSeal(ctx context.Context, c *Census, r *store.Record) error {
	_, err := k.authentic(ctx, r)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil && !errors.Is(err, ErrForged):
		return err
	default:
		c.Seals[sealView(r, err).State]++
		return nil
	}
}

// each calls f for every record of a backend until f returns an error, and damaged
// for every one that cannot be read.
func each(ctx context.Context, backend store.Backend, damaged func(*store.DamagedError), f func(*store.Record) error) error {
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
	// Problem is the reason why the keys could not be counted; empty when they
	// were. With a problem the census is empty.
	Problem string `json:"problem,omitempty"`
}

// StoreStatus returns the state of the backend, without I/O.
func (k *Service) StoreStatus(ctx context.Context) store.Status { return k.backend.Status(ctx) }

// Status returns the state of the backend and counts the keys. It never fails:
// problems are part of the result.
func (k *Service) Status(ctx context.Context) Status {
	s := Status{Store: k.backend.Status(ctx)}
	var err error
	if s.Census, err = k.Census(ctx); err != nil {
		s.Problem = err.Error()
	}
	return s
}
