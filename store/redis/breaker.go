package redis

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

const (
	// breakerFailures in a row open a breaker.
	breakerFailures = 5
	// breakerPause is how long an open breaker answers by itself.
	breakerPause = 300 * time.Millisecond
)

type breaker = gobreaker.CircuitBreaker[[]any]

// breakers holds a circuit breaker per server, so that an outage costs
// microseconds and the fall of one master does not shut out the others.
type breakers struct {
	log *slog.Logger
	all sync.Map // of server address to *breaker
}

func (b *breakers) at(server string) *breaker {
	if found, ok := b.all.Load(server); ok {
		return found.(*breaker)
	}
	found, _ := b.all.LoadOrStore(server, gobreaker.NewCircuitBreaker[[]any](gobreaker.Settings{
		Name:         server,
		Timeout:      breakerPause,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		IsSuccessful: func(err error) bool { return err == nil || isFull(err) },
		IsExcluded:   saysNothing,
		OnStateChange: func(name string, from, to gobreaker.State) {
			b.log.Warn("the circuit breaker to redis changed", "server", name, "from", from.String(), "to", to.String())
		},
	}))
	return found.(*breaker)
}

// saysNothing reports whether the error says nothing of the server: the caller
// has left, or a burst of calls has waited for a connection in vain. If the
// server was why the others kept theirs, they have failed by themselves.
func saysNothing(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrPoolTimeout)
}

// The names of the breakers that belong to no address: the one server, and the
// look for the master of a slot.
const (
	theServer = "redis"
	theSlots  = "cluster"
)

// breakerOf returns the breaker of the server that has the key.
func (c *caller) breakerOf(ctx context.Context, key string) (*breaker, error) {
	if c.cluster == nil {
		return c.breakers.at(theServer), nil
	}
	var node *redis.Client
	_, err := c.breakers.at(theSlots).Execute(func() (_ []any, err error) {
		node, err = c.cluster.MasterForKey(ctx, key)
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return c.breakers.at(node.Options().Addr), nil
}
