// Package rpc runs Lua scripts on Redis servers: a call is executed at most once, and
// its reply is used only if it is the reply to this call.
//
// It finds the server that has a key, waits for a connection, and refuses calls at
// once while a server does not answer. What a server sends is bounded before it is
// read. Begin with [Client.Run] in call.go. The files:
//
//   - options, client: the settings, and the connections that they make
//   - replies: the bounds of a reply
//   - breaker: what a call passes before it is sent
//   - call: a call, its reply, and what the errors of Redis mean
package rpc

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/card-gateway/card-gateway/store"
)

// once is a command that go-redis never repeats, because after a lost reply it is
// not known whether it was executed. It still follows MOVED and ASK, because then
// it was not executed.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// A Client runs scripts on the servers. Its own commands, those of go-redis, pass
// neither the queue nor the breaker. It is made by [New].
type Client struct {
	redis.UniversalClient
	Cluster *redis.ClusterClient // the same, or nil without a cluster
	Options Options              // those of New with the defaults

	network *network
	tags    string // the beginning of all
	calls   atomic.Uint64
	servers servers
}

// quiet drops the lines that go-redis would write to stderr. Calls return all errors
// that matter.
var quiet = sync.OnceFunc(logging.Disable)

// New checks the options and returns a client, which connects at its first use.
func New(opt Options) (*Client, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	quiet()
	c := &Client{Options: opt, network: newNetwork(opt.IOTimeout), tags: rand.Text()[:12] + "."}
	c.servers.opt = &c.Options
	if c.UniversalClient, err = opt.newClient(c.network); err != nil {
		return nil, err
	}
	c.Cluster, _ = c.UniversalClient.(*redis.ClusterClient)
	return c, nil
}

// ForEachMaster calls the function for every master, at the same time, and returns
// one of its errors. Without a cluster it calls it for the server.
func (c *Client) ForEachMaster(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	if c.Cluster != nil {
		return c.Cluster.ForEachMaster(ctx, do)
	}
	return do(ctx, c.UniversalClient.(*redis.Client))
}

// Distrust ends all connections that were made until now, each before its next use.
func (c *Client) Distrust() {
	c.network.peers.all.Range(func(_, p any) bool {
		p.(*peer).suspect.Store(c.network.now())
		return true
	})
}

// Breaker returns the breaker of the server at the address, or of [TheServer].
func (c *Client) Breaker(server string) *Breaker { return &c.servers.at(server).Breaker }

// process waits in the queue of the server, and sends the command unless the breaker
// of the server is open.
func (c *Client) process(ctx context.Context, server string, cmd redis.Cmder) error {
	s := c.servers.at(server)
	if s.Open() {
		return s.Refused() // without waiting for a turn
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return s.run(func() error { return c.UniversalClient.Process(ctx, cmd) })
}

// A Call is one run of a script. The tag is put before the arguments.
type Call struct {
	Script *Script
	Keys   []string
	Args   []any
}

// Run waits in the queue of the server, executes the script and returns the reply
// without the tag. Every error is a [store.ErrUnavailable].
func (c *Client) Run(ctx context.Context, doing string, what Call) ([]any, error) {
	server, err := c.serverOf(ctx, what.Keys[0])
	if err != nil {
		return nil, Unavailable(doing, err)
	}
	reply, err := c.RunOn(ctx, func(ctx context.Context, cmd redis.Cmder) error { return c.process(ctx, server, cmd) }, what)
	if err == nil {
		return reply, nil
	}
	switch {
	case IsFull(err):
		err = fmt.Errorf("%w: %w", store.ErrFull, err)
	case c.Cluster != nil:
		c.Cluster.ReloadState(ctx) // perhaps a master failed
	}
	return nil, Unavailable(doing, err)
}

// tag makes a token for a call, which its reply must contain: a reply to another call
// is not used.
func (c *Client) tag() string {
	b := make([]byte, 0, 32)
	return string(strconv.AppendUint(append(b, c.tags...), c.calls.Add(1), 36))
}

// RunOn executes the script once, by a function that sends a command, and returns the
// reply without the tag. It sends it again only if Redis has replied that
// it did not execute it: the script is not loaded, or its slot is being moved.
// Then it sends the source too, and from the second time on after a pause that
// doubles.
func (c *Client) RunOn(ctx context.Context, process func(context.Context, redis.Cmder) error, what Call) ([]any, error) {
	tag := c.tag()
	args := make([]any, 0, 4+len(what.Keys)+len(what.Args))
	args = append(args, "evalsha", what.Script.SHA, strconv.Itoa(len(what.Keys)))
	for _, k := range what.Keys {
		args = append(args, k)
	}
	args = append(args, tag)
	args = append(args, what.Args...)
	for pause := firstPause; ; {
		cmd := redis.NewCmd(ctx, args...)
		err := process(ctx, once{cmd})
		switch {
		case err == nil:
			return checkReply(cmd, tag)
		case isUnloaded(err) && args[0] == "evalsha":
			args[0], args[1] = "eval", what.Script.Source
		case isUnloaded(err), isHalfMoved(err):
			if ended := Sleep(ctx, pause); ended != nil {
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

// RunOnConn executes the script on a connection to the master that has its first
// key, and then calls the function with the reply and the same connection. It repeats
// nothing, unless the server has answered that another one has the key.
func (c *Client) RunOnConn(ctx context.Context, doing string, what Call, then func(reply []any, conn *redis.Conn) error) error {
	for pause := firstPause; ; pause *= 2 {
		err := c.tryOnConn(ctx, what, then)
		if !movedElsewhere(err) || c.Cluster == nil {
			return Unavailable(doing, err)
		}
		c.Cluster.ReloadState(ctx)
		if Sleep(ctx, pause) != nil {
			return Unavailable(doing, err)
		}
	}
}

func (c *Client) tryOnConn(ctx context.Context, what Call, then func([]any, *redis.Conn) error) error {
	node, _ := c.UniversalClient.(*redis.Client)
	if c.Cluster != nil {
		var err error
		if node, err = c.Cluster.MasterForKey(ctx, what.Keys[0]); err != nil {
			return err
		}
	}
	conn := node.Conn()
	defer conn.Close()
	reply, err := c.RunOn(ctx, conn.Process, what)
	if err != nil {
		return err
	}
	return then(reply, conn)
}

var (
	//go:embed value.lua
	valueLua    string
	valueScript = NewScript(valueLua)
)

// Value reads or writes the small value of a Redis key by value.lua; do is get, put or
// delete. It returns what is stored then.
func (c *Client) Value(ctx context.Context, key, do, value string) (stored []byte, found bool, err error) {
	reply, err := c.Run(ctx, "reading or writing a value", Call{valueScript, []string{key}, []any{do, value}})
	if err != nil || len(reply) == 0 {
		return nil, false, err
	}
	v, err := Text(reply, 0)
	return []byte(v), true, err
}

// Text returns the i-th element of a reply as text.
func Text(reply []any, i int) (string, error) {
	if i < len(reply) {
		if s, ok := reply[i].(string); ok {
			return s, nil
		}
	}
	return "", fmt.Errorf("%w: a reply of redis lacks text at place %d", store.ErrUnavailable, i)
}

// Texts returns the first n elements of a reply as text.
func Texts(reply []any, n int) (all []string, err error) {
	all = make([]string, n)
	for i := range all {
		if all[i], err = Text(reply, i); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Moment returns the time for microseconds of Unix time; 0 is the zero time.
func Moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// Sleep returns after the time, or earlier with the error of the context.
func Sleep(ctx context.Context, d time.Duration) error {
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
	TheServer = "redis"
	theSlots  = "cluster"
)

// serverOf returns the name of the server that has the key.
func (c *Client) serverOf(ctx context.Context, key string) (string, error) {
	if c.Cluster == nil {
		return TheServer, nil
	}
	var node *redis.Client
	err := c.servers.at(theSlots).run(func() (err error) {
		node, err = c.Cluster.MasterForKey(ctx, key)
		return err
	})
	if err != nil {
		return "", err
	}
	return node.Options().Addr, nil
}

// A Script is a Lua script with the digest by which Redis knows it. Its first argument
// is a tag, with which its reply begins.
type Script struct{ Source, SHA string }

// NewScript returns the script with its digest.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{Source: source, SHA: hex.EncodeToString(sum[:])}
}

// An UnfitError says that a server was reached and cannot be used. While the gateway
// runs, it is a server that cannot answer: the error wraps [store.ErrUnavailable].
type UnfitError struct {
	Server  string // its address; empty if it is not known
	Problem string // the problem and its remedy
}

// Error names the server and the problem.
func (e *UnfitError) Error() string {
	if e.Server != "" {
		return "redis at " + e.Server + ": " + e.Problem
	}
	return "redis: " + e.Problem
}

// Unwrap returns [store.ErrUnavailable].
func (e *UnfitError) Unwrap() error { return store.ErrUnavailable }

// Unavailable returns an error that wraps err and [store.ErrUnavailable], and nil for
// nil.
func Unavailable(doing string, err error) error {
	if err == nil || errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, doing, err)
}

// Unusable returns the [UnfitError] of [Refusal], or that of [Unavailable].
func Unusable(addr, doing string, err error) error {
	if unfit := Refusal(addr, err); unfit != nil {
		return unfit
	}
	return Unavailable(doing, err)
}

// Refusal returns an UnfitError if the error means that the server refuses the
// gateway's user, else nil.
func Refusal(addr string, err error) error {
	refused := ""
	switch {
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOPERM"):
		refused = "it refuses the user; check username, password and its ACL rule"
	case err != nil && strings.Contains(err.Error(), "user executing the script can't"):
		refused = "it refuses the user a command of a script; check its ACL rule"
	default:
		return nil
	}
	return &UnfitError{Server: addr, Problem: fmt.Sprintf("%s: %v", refused, err)}
}

// IsMoving reports whether Redis refused a command, before it wrote anything,
// because its slot is with another node, or is being moved to it.
func IsMoving(err error) bool { return movedElsewhere(err) || isHalfMoved(err) }

func movedElsewhere(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

// isHalfMoved reports whether the keys of the command are on two nodes.
func isHalfMoved(err error) bool {
	return redis.HasErrorPrefix(err, "TRYAGAIN") ||
		err != nil && strings.Contains(err.Error(), "non local key")
}

// isUnloaded reports whether Redis does not know the script.
func isUnloaded(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// IsFull reports whether Redis refused to write because its memory is full.
func IsFull(err error) bool { return redis.HasErrorPrefix(err, "OOM") }
