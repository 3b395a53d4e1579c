package redis

import (
	"context"
	"time"

	"github.com/card-gateway/card-gateway/ratelimit"
)

// Levels reads the buckets on the master of the key's slot. The moment is the
// server's, as that of Settle is.
func (s *Store) Levels(ctx context.Context, keyID string, charges []ratelimit.Charge, now time.Time) ([]ratelimit.State, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.SettleTimeout)
	defer cancel()
	args := make([]any, 0, 1+len(charges))
	args = append(args, decimal(now.UnixMicro()))
	for i := range charges {
		args = append(args, charges[i].Bucket)
	}
	reply, err := s.run(ctx, "reading limits", call{script: s.levels, keys: []string{s.names.buckets(keyID)}, args: args})
	if err != nil {
		return nil, err
	}
	at, err := text(reply, 0)
	if err != nil {
		return nil, err
	}
	moment := fields{rest: at}
	micros := moment.bounded()
	states := make([]ratelimit.State, len(charges))
	for i := range charges {
		stored, err := text(reply, i+1)
		if err != nil {
			return nil, err
		}
		n := fields{rest: stored}
		level := ratelimit.Level{Used: n.bounded(), At: n.bounded(), Unit: n.bounded()}
		if n.err != nil {
			return nil, n.err
		}
		charges[i].Describe(&states[i], level, micros, true)
	}
	return states, moment.err
}
