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
// reach; the error is that of one of them, or that a server refuses the user.
func (s *servers) readMasters(ctx context.Context) ([]serverInfo, error) {
	if s.cluster == nil {
		node := s.client.(*redis.Client)
		i, err := readInfo(ctx, node)
		if err != nil {
			return nil, err
		}
		if i.role != "master" {
			s.network.distrust() // the address may lead to another server by now
		}
		i.denied, i.lacks = s.tryWrite(ctx, node, i.slots), s.lacks(ctx, node, i.slots)
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
		i.denied, i.lacks = s.tryWrite(ctx, node, i.slots), s.lacks(ctx, node, i.slots)
		mu.Lock()
		defer mu.Unlock()
		if i.role == "master" { // otherwise it was just demoted
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

// tryWrite returns why the node refuses writes, for example because its memory is
// full, or nil. It sends a write that changes nothing: SET … XX of a missing name.
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
