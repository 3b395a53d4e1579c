package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
)

// readMasters reads INFO of all masters. It leaves out those that are out of
// reach; the error is of one of them, or says that a server refuses the user.
func (s *servers) readMasters(ctx context.Context) ([]serverInfo, error) {
	if s.cluster == nil {
		node := s.client.(*redis.Client)
		i, err := readInfo(ctx, node)
		if err != nil {
			return nil, err
		}
		i.denied = s.tryWrite(ctx, node, i.slots)
		return []serverInfo{i}, nil
	}
	var mu sync.Mutex
	var all []serverInfo
	err := s.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		i, err := readInfo(ctx, node)
		if err != nil {
			return err
		}
		answer, err := node.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS needs a right that existing users lack
		if err != nil {
			return err
		}
		i.slots = ownSlots(i.addr, answer)
		i.denied = s.tryWrite(ctx, node, i.slots)
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
