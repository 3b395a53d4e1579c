package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/card-gateway/card-gateway/store"
)

// tags makes a token for every call, which its reply must show: a reply that
// belongs to another call is not believed.
type tags struct {
	prefix string
	next   *atomic.Uint64
}

func newTags() tags {
	return tags{prefix: randomHex(6) + ".", next: new(atomic.Uint64)}
}

func (t tags) make() string {
	b := make([]byte, 0, 32)
	return string(strconv.AppendUint(append(b, t.prefix...), t.next.Add(1), 36))
}

// once is a command that go-redis never repeats by itself, because after a
// lost reply nobody knows whether it was executed. It still follows MOVED and
// ASK, which say that it was not.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// processor is what runs a command: the client, in turn or out of it, or one
// connection of it.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// A caller runs scripts on the servers.
type caller struct {
	client   redis.UniversalClient
	cluster  *redis.ClusterClient // nil unless the client is one
	tags     tags
	breakers breakers
	queues   queues
}

func newCaller(client redis.UniversalClient, opt *Options) *caller {
	c := &caller{
		client: client, tags: newTags(),
		breakers: breakers{log: opt.Logger},
		queues:   queues{size: opt.PoolSize, patience: opt.IOTimeout, observe: opt.Queue},
	}
	c.cluster, _ = client.(*redis.ClusterClient)
	return c
}

// A turn is the client, for one server: a command waits for its turn in the
// queue of the server, and is sent unless its breaker is open.
type turn struct {
	*caller
	server string
}

func (t turn) Process(ctx context.Context, cmd redis.Cmder) error {
	breaker := t.breakers.at(t.server)
	if breaker.State() == gobreaker.StateOpen {
		return gobreaker.ErrOpenState // wait for no turn
	}
	queue := t.queues.at(t.server)
	if err := queue.enter(ctx); err != nil {
		return err
	}
	defer queue.leave()
	return breaker.run(func() error { return t.client.Process(ctx, cmd) })
}

// A call is one run of a script. The tag is put before args.
type call struct {
	script *script
	keys   []string
	args   []any
}

// run executes the script when it is its turn on its server and returns the
// reply without the tag. Every error is a [store.ErrUnavailable].
func (c *caller) run(ctx context.Context, doing string, what call) ([]any, error) {
	server, err := c.serverOf(ctx, what.keys[0])
	if err != nil {
		return nil, unavailable(doing, err)
	}
	reply, err := c.runOn(ctx, turn{c, server}, what)
	if err == nil {
		return reply, nil
	}
	switch {
	case isFull(err):
		err = fmt.Errorf("%w: %w", store.ErrFull, err)
	case c.cluster != nil:
		c.cluster.ReloadState(ctx) // perhaps a master fell
	}
	return nil, unavailable(doing, err)
}

// runOn executes the script once. It is sent again only when Redis has said
// that it did not execute it: the script is not loaded, or its slot is being
// moved. It goes with its source then, and after a pause that doubles from the
// second time on.
func (c *caller) runOn(ctx context.Context, on processor, what call) ([]any, error) {
	tag := c.tags.make()
	args := make([]any, 0, 4+len(what.keys)+len(what.args))
	args = append(args, "evalsha", what.script.sha, strconv.Itoa(len(what.keys)))
	for _, k := range what.keys {
		args = append(args, k)
	}
	args = append(args, tag)
	args = append(args, what.args...)
	for pause := firstPause; ; {
		cmd := redis.NewCmd(ctx, args...)
		err := on.Process(ctx, once{cmd})
		switch {
		case err == nil:
			return checkReply(cmd, tag)
		case isUnloaded(err) && args[0] == "evalsha":
			args[0], args[1] = "eval", what.script.source
		case isUnloaded(err), isMoving(err):
			if ended := sleep(ctx, pause); ended != nil {
				return nil, fmt.Errorf("redis did not run the script: %w: %w", err, ended)
			}
			pause *= 2
		default:
			return nil, err
		}
	}
}

const firstPause = 2 * time.Millisecond

func checkReply(cmd *redis.Cmd, tag string) ([]any, error) {
	reply, err := cmd.Slice()
	if err != nil {
		return nil, fmt.Errorf("an unexpected reply: %w", err)
	}
	if len(reply) == 0 || reply[0] != any(tag) {
		return nil, errors.New("a reply that belongs to another call")
	}
	return reply[1:], nil
}

// value reads or writes the small value of a Redis key by meta.lua; do is get,
// put or delete.
func (c *caller) value(ctx context.Context, key, do, value string) (stored []byte, found bool, err error) {
	reply, err := c.run(ctx, "reading or writing a value", call{script: metaScript, keys: []string{key}, args: []any{do, value}})
	if err != nil || len(reply) == 0 {
		return nil, false, err
	}
	v, err := text(reply, 0)
	return []byte(v), true, err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The names of the servers that belong to no address: the one server, and the
// search for the master of a slot.
const (
	theServer = "redis"
	theSlots  = "cluster"
)

// serverOf returns the name of the server that has the key.
func (c *caller) serverOf(ctx context.Context, key string) (string, error) {
	if c.cluster == nil {
		return theServer, nil
	}
	var node *redis.Client
	err := c.breakers.at(theSlots).run(func() (err error) {
		node, err = c.cluster.MasterForKey(ctx, key)
		return err
	})
	if err != nil {
		return "", err
	}
	return node.Options().Addr, nil
}
