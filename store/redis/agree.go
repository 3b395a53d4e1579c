package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"
)

// An adoption is what one check shares with the other gateways.
type adoption struct {
	identities []string // of the masters
	least      int64    // floor, in microseconds
	raise      bool     // the floor to now
}

// nothingNew reports whether the adoption would change nothing.
func (s *servers) nothingNew(a *adoption) bool {
	if a.raise || a.least > 0 {
		return false
	}
	for _, id := range a.identities {
		if !s.memory.identities[id] || s.cluster == nil && s.memory.last != id {
			return false
		}
	}
	return true
}

// adopt agrees on epoch and floor. As long as nothing has changed it only
// reads them.
func (s *servers) adopt(ctx context.Context, m mode, a adoption, next *view) error {
	before := s.view.Load().epoch
	if s.nothingNew(&a) {
		if ok, err := s.readFloor(ctx, next); ok || err != nil {
			return err
		}
	}
	found, err := s.runAdopt(ctx, "", a, next)
	if err != nil {
		return err
	}
	switch {
	case !found && before == "":
		_, err = s.runAdopt(ctx, newEpoch(), a, next)
	case !found && m == create:
		a.raise = true
		_, err = s.runAdopt(ctx, newEpoch(), a, next)
	case !found:
		err = errEmptied
	case before != "" && next.epoch != before: // emptied, and made anew by another gateway
		a.raise = true
		_, err = s.runAdopt(ctx, "", a, next)
	}
	return err
}

// readFloor takes over a floor that another gateway has raised. It reports
// false when the epoch is not the one of the view. The floor never falls, so
// that a wrong reply does no harm.
func (s *servers) readFloor(ctx context.Context, next *view) (bool, error) {
	values, err := s.client.HMGet(ctx, s.names.servers(), "epoch", "floor").Result()
	if err != nil {
		if unfit := refusal("", err); unfit != nil {
			return false, unfit
		}
		return false, unavailable("checking the store", err)
	}
	if len(values) != 2 || next.epoch == "" || values[0] != any(next.epoch) {
		return false, nil
	}
	if text, ok := values[1].(string); ok {
		floor, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return false, unavailable("reading the replay floor", err)
		}
		next.floor = max(next.floor, floor)
	}
	return true, nil
}

func (s *servers) runAdopt(ctx context.Context, epoch string, a adoption, next *view) (found bool, err error) {
	args := []any{epoch, decimal(a.least), bit(a.raise)}
	for _, id := range a.identities {
		args = append(args, id)
	}
	reply, err := s.runOn(ctx, s.client, call{script: adoptScript, keys: []string{s.names.servers()}, args: args})
	if err != nil {
		if unfit := refusal("", err); unfit != nil {
			return false, unfit
		}
		return false, unavailable("checking the store", err)
	}
	if len(reply) == 0 {
		return false, nil
	}
	if next.epoch, err = text(reply, 0); err != nil {
		return false, err
	}
	floor, err := text(reply, 1)
	if err != nil {
		return false, err
	}
	if next.floor, err = strconv.ParseInt(floor, 10, 64); err != nil {
		return false, unavailable("reading the replay floor", err)
	}
	return true, nil
}

func newEpoch() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
