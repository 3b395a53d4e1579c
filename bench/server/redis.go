package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A redisServer keeps its data only in memory.
type redisServer struct {
	*process
	client *redis.Client
}

func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	p, err := newProcess(ctx, dir, "redis")
	if err != nil {
		return nil, err
	}
	r := &redisServer{process: p, client: redis.NewClient(&redis.Options{Addr: p.addr, DisableIdentity: true})}
	err = p.start(ctx, nil, "redis-server", "--bind", "127.0.0.1", "--port", p.port(), "--dir", p.dir,
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction")
	return r, err
}

// usage asks Redis, which knows its CPU time to the microsecond.
func (r *redisServer) usage(ctx context.Context) (usage, error) {
	text, err := r.client.Info(ctx, "cpu", "memory").Result()
	if err != nil {
		return usage{}, fmt.Errorf("asking Redis what it uses: %w", err)
	}
	number := func(name string) float64 {
		_, rest, _ := strings.Cut(text, name+":")
		value, _, _ := strings.Cut(rest, "\r\n")
		n, parseErr := strconv.ParseFloat(value, 64)
		if parseErr != nil {
			err = fmt.Errorf("what Redis says of %s: %w", name, parseErr)
		}
		return n
	}
	cpu, resident := number("used_cpu_sys")+number("used_cpu_user"), number("used_memory_rss")
	return usage{cpu: time.Duration(cpu * float64(time.Second)), resident: int64(resident)}, err
}

// Close ends the server.
func (r *redisServer) Close() error {
	if r == nil {
		return nil
	}
	return errors.Join(r.client.Close(), r.process.Close())
}
