package keys

import (
	"context"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// A Census counts the keys.
type Census struct {
	// Keys by status; with an entry for every member of [Statuses].
	Keys map[string]int `json:"keys"`
	// Expiring counts the active keys that expire within "1d", "7d" and "30d";
	// a key that expires within a day counts in all three.
	Expiring map[string]int `json:"expiring"`
}

// censusPage is how many records are read at once where all are wanted.
const censusPage = 500

// Census reads all keys and counts them. Records are read in pages, so that
// keys made or deleted meanwhile may be missed.
func (k *Service) Census(ctx context.Context) (Census, error) {
	c := Census{Keys: make(map[string]int), Expiring: map[string]int{"1d": 0, "7d": 0, "30d": 0}}
	for _, status := range Statuses() {
		c.Keys[status] = 0
	}
	now := k.opt.Clock()
	own := k.ids.Load()
	err := each(ctx, k.backend, func(r *store.Record) error {
		if own != nil && !k.local {
			k.known.learn(own, r.ID) // also what a gateway of an earlier version has imported
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
	return c, err
}

// each calls f for every record of a backend until f returns an error.
func each(ctx context.Context, backend store.Backend, f func(*store.Record) error) error {
	for cursor := ""; ; {
		records, next, err := backend.List(ctx, cursor, censusPage)
		if err != nil {
			return err
		}
		for _, r := range records {
			if err := f(r); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

// Status is the state of the store and of the keys.
type Status struct {
	Store store.Status `json:"store"`
	Census
	// Problem is why the keys could not be counted; empty when they were.
	Problem string `json:"problem,omitempty"`
}

// Status describes the backend and counts the keys. It returns no error: what
// is wrong is part of the result.
func (k *Service) Status(ctx context.Context) Status {
	s := Status{Store: k.backend.Status(ctx)}
	var err error
	if s.Census, err = k.Census(ctx); err != nil {
		s.Problem = "counting the keys: " + err.Error()
	}
	return s
}
