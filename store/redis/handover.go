package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/card-gateway/card-gateway/store"
)

// A planned failover loses nothing, and the two servers can prove it. The
// promoted one keeps the old replication id as its second one, with the offset
// up to which it holds that history. The demoted one, still the same run, does
// the same when it continues from the promoted one: its offset is where its own
// writes ended. If that is not above the other, everything that was ever
// acknowledged under the old identity is on the promoted server.

// handOverWait is how long a promoted server stays unused for want of that
// proof, before its slots are fenced. A demoted server follows within 1 s.
const handOverWait = 2 * time.Second

var errHandOver = fmt.Errorf("%w: another server of redis has taken over; whether it has everything is being found out", store.ErrUnavailable)

// settled splits the masters: those that may be used, with the predecessor of
// each new one that has proved its hand-over, and whether there are others,
// whose proof is awaited.
func (s *servers) settled(ctx context.Context, masters []serverInfo) (usable []serverInfo, waiting bool) {
	s.memory.sight(masters)
	for _, m := range masters {
		if !s.memory.identities[m.identity] && s.memory.replaced(&m) {
			m.from = s.predecessor(ctx, &m)
			if m.from == "" && time.Since(s.memory.sighted[m.identity].local) < handOverWait {
				waiting = true
				continue
			}
		}
		usable = append(usable, m)
	}
	s.waiting.Store(waiting)
	return usable, waiting
}

// predecessor returns the identity of a server that this gateway has used and
// that has proved that the promoted one has all of its writes, else "".
func (s *servers) predecessor(ctx context.Context, promoted *serverInfo) (identity string) {
	var mu sync.Mutex
	ask := func(ctx context.Context, node *redis.Client) error {
		i, err := readInfo(ctx, node)
		if err != nil || !i.handedOver(promoted) {
			return nil // no proof
		}
		was := identityOf(i.run, i.replication2)
		mu.Lock()
		defer mu.Unlock()
		if s.memory.identities[was] {
			identity = was
		}
		return nil
	}
	if s.cluster != nil {
		_ = s.cluster.ForEachSlave(ctx, ask)
		return identity
	}
	for _, addr := range promoted.followers {
		node := s.connect(addr)
		_ = ask(ctx, node)
		_ = node.Close()
	}
	return identity
}

// handedOver reports whether the server was the master before the promoted one,
// follows it now, and had written nothing that the promoted one lacks.
func (i *serverInfo) handedOver(promoted *serverInfo) bool {
	return i.role == "slave" && i.replication == promoted.replication && i.replication2 == promoted.replication2 &&
		0 < i.offset2 && i.offset2 <= promoted.offset2
}
