package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis replays its append-only file as the user default. In that file, a script
// that wrote more than one key is a transaction. If default may not run one of its
// commands, Redis drops the whole transaction without failing: nonces, locks,
// limits and the epoch are lost after the restart. So the gateway asks for the
// rights of default, by a dry run that executes nothing.

// replayedCommands are the writing commands of the scripts, in the form of the
// append-only file.
var replayedCommands = [][]any{
	{"hset", "f", "v"}, {"hsetnx", "f", "v"}, {"hincrby", "f", "1"}, {"hdel", "f"},
	{"pexpireat", "1"}, {"persist"}, {"del"}, {"set", "v"}, {"zadd", "0", "m"}, {"zrem", "m"},
}

// replayUnknown is the problem of a server that refuses the dry run.
const replayUnknown = "the gateway's user may not ask whether the append-only file can be replayed; give it +acl|dryrun"

// replayPause is the time between two checks of the rights of default.
const replayPause = time.Minute

// checkReplay notes at each master what it would lose at its next restart. It
// asks once a minute, and at once for a new master.
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

// replayProblem returns why a restart would lose the writes of scripts, or "".
func replayProblem(ctx context.Context, node *redis.Client, key string) (string, error) {
	command, err := refused(ctx, node, "default", onKey(key, replayedCommands))
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return replayUnknown, nil
	case err != nil || command == "":
		return "", err
	default:
		return fmt.Sprintf("a restart loses nonces, locks and limits: Redis replays the append-only file as the user default, who may not run %s; "+
			"run ACL SETUSER default ~* &* +@all, and write in redis.conf: user default off ~* &* +@all", command), nil
	}
}

// refuseForgetful returns an [UnfitError] if a master would lose data at its next
// restart. It is called only at a start: a running gateway continues, because the
// data is not lost before that.
func (s *servers) refuseForgetful() error {
	for _, m := range *s.masters.Load() {
		if m.forgets != "" && m.forgets != replayUnknown {
			return &UnfitError{Server: m.addr, Problem: m.forgets}
		}
	}
	return nil
}
