package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
)

// readMasters reads INFO of all masters. It leaves out those that are out of
// reach; the error is of one of them, or says that a server refuses the user.
func (c *caller) readMasters(ctx context.Context) ([]serverInfo, error) {
	if c.cluster == nil {
		i, err := readInfo(ctx, c.client.(*redis.Client))
		if err != nil {
			return nil, err
		}
		return []serverInfo{i}, nil
	}
	var mu sync.Mutex
	var all []serverInfo
	err := c.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		i, err := readInfo(ctx, node)
		if err != nil {
			return err
		}
		answer, err := node.ClusterSlots(ctx).Result()
		if err != nil {
			return err
		}
		i.slots = ownSlots(i.addr, answer)
		mu.Lock()
		defer mu.Unlock()
		if i.role == "master" { // else it was demoted just now
			all = append(all, i)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b serverInfo) int { return strings.Compare(a.identity, b.identity) })
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: the cluster has no master", store.ErrUnavailable)
	}
	if err != nil {
		if unfit := refusal("", err); unfit != nil {
			return nil, unfit
		}
		err = unavailable("checking the cluster", err)
	}
	return all, err
}

func readInfo(ctx context.Context, node *redis.Client) (serverInfo, error) {
	addr := node.Options().Addr
	asked := uptime()
	reply, err := node.Info(ctx).Result()
	if err != nil {
		if unfit := refusal(addr, err); unfit != nil {
			return serverInfo{}, unfit
		}
		return serverInfo{}, unavailable("checking "+addr, err)
	}
	i, err := parseInfo(addr, reply)
	i.asked, i.answered = asked, uptime()
	if err != nil {
		return i, unavailable("checking "+addr, err)
	}
	if i.loading {
		return i, fmt.Errorf("%w: redis at %s is loading its data", store.ErrUnavailable, addr)
	}
	return i, nil
}

// unheard returns a problem when a master has heard of none of its replicas for
// so long that another one may be in its place.
func unheard(masters []serverInfo) error {
	for i := range masters {
		if lag := time.Duration(masters[i].silent) * time.Second; lag > maxLag {
			return fmt.Errorf("%w: no replica has answered redis at %s for %v, at most %v are allowed", store.ErrUnavailable, masters[i].addr, lag, maxLag)
		}
	}
	return nil
}

// skew returns a problem when a server's clock is too far from this machine's.
func skew(masters []serverInfo, now time.Time) error {
	for i := range masters {
		if off := masters[i].now.Sub(now); off.Abs() > maxSkew && !masters[i].now.IsZero() {
			return fmt.Errorf("%w: the clock of redis at %s is %v off ours, at most %v are allowed", store.ErrUnavailable, masters[i].addr, off.Round(time.Millisecond), maxSkew)
		}
	}
	return nil
}
