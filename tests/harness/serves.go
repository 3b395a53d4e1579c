package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Serve reports whether a plain client is served for an API key now: one of the
// servers answers it within a moment, and takes its writes.
func (s *Servers) Serve(key Credentials) bool {
	answers := make(chan bool, len(s.All))
	for _, r := range s.All {
		go func() { answers <- r.serves(key) }()
	}
	for range s.All {
		if <-answers {
			return true
		}
	}
	return false
}

func (r *RedisServer) serves(key Credentials) bool {
	if r.Pid() == 0 {
		return false
	}
	const moment = 250 * time.Millisecond
	network := "tcp"
	if strings.HasPrefix(r.Addr, "/") {
		network = "unix"
	}
	plain := redis.NewClient(&redis.Options{
		Network: network, Addr: r.Addr, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, PoolSize: 1,
		DialTimeout: moment, ReadTimeout: moment, WriteTimeout: moment, PoolTimeout: moment,
	})
	defer func() { _ = plain.Close() }()
	err := plain.SetArgs(context.Background(), "{"+key.ID+"}plain", "", redis.SetArgs{Mode: "XX"}).Err()
	return errors.Is(err, redis.Nil)
}

// Clients returns how many connections to the server are open.
func (r *RedisServer) Clients() (n int) {
	r.t.Helper()
	_, rest, _ := strings.Cut(fmt.Sprint(r.Do("info", "clients")), "connected_clients:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		r.t.Fatal(err)
	}
	return n
}
