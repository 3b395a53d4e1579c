package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/card-gateway/card-gateway/store"
)

// tags makes a token for every call, which its reply must contain: a reply to
// another call is not used.
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

// once is a command that go-redis never repeats, because after a lost reply it is
// not known whether it was executed. It still follows MOVED and ASK, because then
// it was not executed.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// processor runs a command: the client, with or without the queue, or one of its
// connections.
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
		return gobreaker.ErrOpenState // without waiting for a turn
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

// run waits in the queue of the server, executes the script and returns the reply
// without the tag. Every error is a [store.ErrUnavailable].
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
		c.cluster.ReloadState(ctx) // perhaps a master failed
	}
	return nil, unavailable(doing, err)
}

// runOn executes the script once. It sends it again only if Redis has replied that
// it did not execute it: the script is not loaded, or its slot is being moved.
// Then it sends the source too, and from the second time on after a pause that
// doubles.
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
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The names of servers without an address: the single server, and the search for
// the master of a slot.
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

// A script is a Lua script with the digest by which Redis knows it.
type script struct{ source, sha string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// Each file is appended to server.lua and may use its functions.
var (
	//go:embed server.lua
	serverLua string
	//go:embed settle.lua
	settleLua string
	//go:embed levels.lua
	levelsLua string
	//go:embed get.lua
	getLua string
	//go:embed put.lua
	putLua string
	//go:embed delete.lua
	deleteLua string
	//go:embed index.lua
	indexLua string
	//go:embed meta.lua
	metaLua string
	//go:embed adopt.lua
	adoptLua string

	levelsScript = newScript(serverLua + levelsLua)
	getScript    = newScript(getLua)
	putScript    = newScript(serverLua + putLua)
	deleteScript = newScript(serverLua + deleteLua)
	indexScript  = newScript(indexLua)
	metaScript   = newScript(metaLua)
	adoptScript  = newScript(serverLua + adoptLua)
)

// An UnfitError says that a server was reached and cannot be used.
type UnfitError struct {
	Server  string // its address; empty if it is not known
	Problem string // the problem and its remedy
	Cause   error  // the error of the server, if there was one
}

// Error names the server and the problem.
func (e *UnfitError) Error() string {
	s := "redis"
	if e.Server != "" {
		s += " at " + e.Server
	}
	s += ": " + e.Problem
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause and [store.ErrUnavailable]: while the gateway runs, an
// unfit server is one that cannot answer.
func (e *UnfitError) Unwrap() []error {
	if e.Cause == nil {
		return []error{store.ErrUnavailable}
	}
	return []error{store.ErrUnavailable, e.Cause}
}

var (
	errNotChecked = fmt.Errorf("%w: redis was not reached yet", store.ErrUnavailable)
	errBeingMade  = fmt.Errorf("%w: redis is new, and is put into use when all its masters have answered", store.ErrUnavailable)
	errEmptied    = fmt.Errorf("%w: redis was emptied; create or import the keys again", store.ErrUnavailable)
	errLost       = fmt.Errorf("%w: the key is missing, and redis was emptied since this gateway started; import the key again, or restart the gateway when all keys are there", store.ErrUnavailable)
)

var errClosed = fmt.Errorf("%w: it was closed", store.ErrUnavailable)

// unavailable returns an error that wraps err and [store.ErrUnavailable].
func unavailable(doing string, err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, doing, err)
}

// unusable returns the [UnfitError] of [refusal], or what unavailable returns.
func unusable(addr, doing string, err error) error {
	if unfit := refusal(addr, err); unfit != nil {
		return unfit
	}
	return unavailable(doing, err)
}

// refusal returns an UnfitError if the error means that the server refuses the
// gateway's user, else nil.
func refusal(addr string, err error) error {
	for _, prefix := range []string{"NOAUTH", "WRONGPASS", "NOPERM"} {
		if redis.HasErrorPrefix(err, prefix) {
			return &UnfitError{Server: addr, Problem: "it refuses the user; check username, password and its ACL rule", Cause: err}
		}
	}
	if err != nil && strings.Contains(err.Error(), "user executing the script can't") {
		return &UnfitError{Server: addr, Problem: "it refuses the user a command of a script; check its ACL rule", Cause: err}
	}
	return nil
}

// isMoving reports whether Redis refused the script, before it wrote anything,
// because its slot is being moved to another node.
func isMoving(err error) bool {
	return redis.HasErrorPrefix(err, "TRYAGAIN") ||
		err != nil && strings.Contains(err.Error(), "non local key")
}

// isUnloaded reports whether Redis does not know the script.
func isUnloaded(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

func movedElsewhere(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

// isFull reports whether Redis refused to write because its memory is full.
func isFull(err error) bool { return redis.HasErrorPrefix(err, "OOM") }
