package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

const (
	// policyPause is short, so that gateways that agree again report it at once: an
	// alert waits for it.
	policyPause = 5 * time.Second
	// policyLife is how long a gateway is compared after it last wrote its policy.
	// Their clocks may differ.
	policyLife = time.Minute
	// policiesLife is after what time Redis drops all policies if no gateway writes
	// any more.
	policiesLife = 24 * time.Hour
)

// policyExchange compares the policy of this gateway with those of the others.
type policyExchange struct {
	client   *rpc.Client
	key      string // hash: a nodePolicy by gateway
	node     string // name of this gateway
	clock    func() time.Time
	own      atomic.Pointer[store.Policy] // nil until SharePolicy
	warnings atomic.Pointer[[]string]
	nodes    atomic.Pointer[[]store.Gateway] // gateways that wrote their policy lately
}

// nodePolicy is the policy that one gateway writes.
type nodePolicy struct {
	At     int64        `json:"at"` // Unix seconds
	Hash   string       `json:"hash"`
	Values store.Policy `json:"values"`
}

func newPolicyExchange(client *rpc.Client, key string) *policyExchange {
	host, _ := os.Hostname()
	p := &policyExchange{client: client, key: key, node: cmp.Or(host, "gateway") + "/" + rand.Text()[:16], clock: time.Now}
	p.warnings.Store(new([]string))
	p.nodes.Store(&[]store.Gateway{})
	return p
}

// watch exchanges policies until the context ends, and then removes its own.
func (p *policyExchange) watch(ctx context.Context, timeout time.Duration) {
	for pause := time.Duration(0); rpc.Sleep(ctx, pause) == nil; pause = policyPause {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		_ = p.exchange(attempt) // package masters reports that redis is out of reach
		cancel()
	}
	p.leave(timeout)
}

// leave removes the policy of this gateway, so that the others need not wait
// until it is old.
func (p *policyExchange) leave(timeout time.Duration) {
	if p.own.Load() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = p.client.HDel(ctx, p.key, p.node).Err() // on failure it expires by policyLife
}

// exchange writes the policy of this gateway and compares it with the others.
func (p *policyExchange) exchange(ctx context.Context) error {
	own := p.own.Load()
	if own == nil {
		return nil
	}
	now := p.clock()
	text, err := json.Marshal(nodePolicy{At: now.Unix(), Hash: own.Hash(), Values: *own})
	if err != nil {
		return err
	}
	pipe := p.client.Pipeline()
	pipe.HSet(ctx, p.key, p.node, text)
	pipe.PExpire(ctx, p.key, policiesLife)
	all := pipe.HGetAll(ctx, p.key)
	if _, err := pipe.Exec(ctx); err != nil {
		return rpc.Unavailable("comparing policies", err)
	}
	var warnings, old []string
	nodes := []store.Gateway{}
	for _, node := range slices.Sorted(maps.Keys(all.Val())) {
		var other nodePolicy
		if err := json.Unmarshal([]byte(all.Val()[node]), &other); err != nil || now.Sub(time.Unix(other.At, 0)) > policyLife {
			old = append(old, node)
			continue
		}
		nodes = append(nodes, store.Gateway{Name: node, Policy: other.Hash, Seen: time.Unix(other.At, 0).UTC(), This: node == p.node})
		warnings = append(warnings, own.Differences(node, other.Values)...)
	}
	p.nodes.Store(&nodes)
	if len(old) > 0 {
		_ = p.client.HDel(ctx, p.key, old...).Err() // the next exchange tries again
	}
	if before := *p.warnings.Swap(&warnings); !slices.Equal(before, warnings) {
		for _, w := range warnings {
			p.client.Options.Logger.Warn("gateways on one store differ in their configuration", "difference", w)
		}
	}
	return nil
}
