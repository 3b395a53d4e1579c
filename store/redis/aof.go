package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis replays its append-only file as the user default. A script that wrote
// more than one key stands there as a transaction, and Redis drops a whole
// transaction without failing when that user may not run one of its commands:
// nonces, locks, limits and the epoch are gone after the restart. So the rights
// of default are asked for, by a dry run that runs nothing.

// replayedCommands are the writing commands of the scripts, as the append-only
// file has them.
var replayedCommands = [][]any{
	{"hset", "f", "v"}, {"hsetnx", "f", "v"}, {"hincrby", "f", "1"}, {"hdel", "f"},
	{"pexpireat", "1"}, {"persist"}, {"del"}, {"set", "v"}, {"zadd", "0", "m"}, {"zrem", "m"},
}

// replayUnknown is the problem of a server that refuses the dry run.
const replayUnknown = "the gateway's user may not ask whether the append-only file can be replayed; give it +acl|dryrun"

// replayPause is the time between two questions for the rights of default.
const replayPause = time.Minute

// checkReplay notes at each master what it would lose at its next restart. It
// asks once a minute, and at once when there is another master.
func (s *servers) checkReplay(ctx context.Context, masters []serverInfo) {
	due := time.Since(s.memory.replayAsked) >= replayPause
	for i := range masters {
		_, asked := s.memory.replay[masters[i].identity]
		due = due || !asked
	}
	if due {
		s.askReplay(ctx, masters)
	}
	for i := range masters {
		masters[i].forgets = s.memory.replay[masters[i].identity]
	}
}

func (s *servers) askReplay(ctx context.Context, masters []serverInfo) {
	answers := make(map[string]string, len(masters)) // by address
	var mu sync.Mutex
	ask := func(ctx context.Context, node *redis.Client) error {
		problem, err := replayProblem(ctx, node, s.names.shared())
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			answers[node.Options().Addr] = problem
		}
		return nil // the next check asks again
	}
	if s.cluster != nil {
		_ = s.cluster.ForEachMaster(ctx, ask)
	} else {
		_ = ask(ctx, s.client.(*redis.Client))
	}
	found := make(map[string]string, len(masters))
	for i := range masters {
		m := &masters[i]
		problem, answered := answers[m.addr]
		if !answered {
			continue
		}
		if !m.persistent {
			problem = "" // there is no file to replay
		}
		if problem != "" && s.memory.replay[m.identity] != problem {
			s.log.Error("redis may lose data at its next restart", "server", m.addr, "problem", problem)
		}
		found[m.identity] = problem
	}
	s.memory.replay, s.memory.replayAsked = found, time.Now()
}

// replayProblem returns why what scripts write does not come back after a
// restart, or an empty text.
func replayProblem(ctx context.Context, node *redis.Client, key string) (string, error) {
	pipe := node.Pipeline()
	answers := make([]*redis.Cmd, len(replayedCommands))
	for i, command := range replayedCommands {
		args := append([]any{"acl", "dryrun", "default", command[0], key}, command[1:]...)
		answers[i] = pipe.Do(ctx, args...)
	}
	_, _ = pipe.Exec(ctx) // each command holds its error
	for i, answer := range answers {
		text, err := answer.Text()
		switch {
		case redis.HasErrorPrefix(err, "NOPERM"):
			return replayUnknown, nil
		case err != nil:
			return "", err
		case text != "OK":
			return fmt.Sprintf("a restart loses nonces, locks and limits: Redis replays the append-only file as the user default, who may not run %s; "+
				"run ACL SETUSER default ~* &* +@all, and write in redis.conf: user default off ~* &* +@all", replayedCommands[i][0]), nil
		}
	}
	return "", nil
}

// refuseForgetful returns an [UnfitError] when a master is known to lose data
// at its next restart. Only a start asks for it: a gateway that runs goes on,
// since the data is there until then.
func (s *servers) refuseForgetful() error {
	for _, m := range *s.masters.Load() {
		if m.forgets != "" && m.forgets != replayUnknown {
			return &UnfitError{Server: m.addr, Problem: m.forgets}
		}
	}
	return nil
}
