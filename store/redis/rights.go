package redis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Redis asks at each command of a script whether the user may run it. A right that
// was taken away stops requests in the middle, while everything else looks well. So
// every check asks for all of them, by dry runs that execute nothing.

// scriptCommands are the commands of the scripts that name a key, with the arguments
// after it.
var scriptCommands = [][]any{
	{"hmget", "f"}, {"hget", "f"}, {"hset", "f", "v"}, {"hsetnx", "f", "v"}, {"hdel", "f"}, {"hlen"}, {"hexists", "f"},
	{"hgetall"}, {"hincrby", "f", "1"}, {"get"}, {"set", "v"}, {"del"}, {"persist"}, {"pexpire", "1"},
	{"zadd", "0", "m"}, {"zrem", "m"}, {"zrangebylex", "-", "+"},
}

// otherCommands are the others of the scripts, and those that run them.
var otherCommands = [][]any{{"info"}, {"time"}, {"evalsha", "sha", "0"}, {"eval", "", "0"}}

// lacks returns the command that the gateway's user may not run on the node, or ""
// if it may run all of them, or may not ask.
func (s *servers) lacks(ctx context.Context, node *redis.Client, served *slotSet) string {
	user, key := node.Options().Username, s.names.missing(served)
	if user == "" {
		user = "default"
	}
	if key == "" {
		return ""
	}
	lacking, _ := refused(ctx, node, user, append(onKey(key, scriptCommands), otherCommands...))
	return lacking
}

// onKey returns the commands with the key after their name.
func onKey(key string, commands [][]any) [][]any {
	all := make([][]any, len(commands))
	for i, command := range commands {
		all[i] = append([]any{command[0], key}, command[1:]...)
	}
	return all
}

// refused returns the name of the first command that the user may not run on the
// node, or "".
func refused(ctx context.Context, node *redis.Client, user string, commands [][]any) (string, error) {
	pipe := node.Pipeline()
	answers := make([]*redis.Cmd, len(commands))
	for i, command := range commands {
		answers[i] = pipe.Do(ctx, append([]any{"acl", "dryrun", user}, command...)...)
	}
	_, _ = pipe.Exec(ctx) // each command holds its error
	for i, answer := range answers {
		if text, err := answer.Text(); err != nil {
			return "", err
		} else if text != "OK" {
			return fmt.Sprint(commands[i][0]), nil
		}
	}
	return "", nil
}
