package redis

import (
	"context"
	"errors"
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

// tryWrite returns why the node takes no writes, for want of memory say, or nil.
// It sends a write that changes nothing: SET of a missing name, if it exists.
func (s *servers) tryWrite(ctx context.Context, node *redis.Client, served *slotSet) error {
	name := s.names.missing(served)
	if name == "" {
		return nil
	}
	err := node.SetArgs(ctx, name, "", redis.SetArgs{Mode: "XX"}).Err()
	if errors.Is(err, redis.Nil) || movedElsewhere(err) || isMoving(err) {
		return nil
	}
	return err
}
