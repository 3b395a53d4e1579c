package redis

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A lastMaster is a hook for the client of a Sentinel set. go-redis asks the
// sentinels at every dial. While none answers, the hook dials the master that they
// named last, because that one may work. If they have named another one
// meanwhile, the connection is like one that was open all the time: every
// settle checks which server answers it.
type lastMaster struct {
	dial    dialer
	timeout time.Duration
	addr    atomic.Pointer[string] // nil before the first dial
}

// DialHook implements [redis.Hook].
func (m *lastMaster) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err == nil {
			named := c.RemoteAddr().String()
			m.addr.Store(&named)
			return c, nil
		}
		last := m.addr.Load()
		var op *net.OpError
		if last == nil || errors.As(err, &op) && op.Addr != nil && op.Addr.String() == *last {
			return nil, err // it is the master that does not answer
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.timeout) // the sentinels have used up the time
		defer cancel()
		c, direct := m.dial(ctx, "tcp", *last)
		if direct != nil {
			return nil, err
		}
		return c, nil
	}
}

// ProcessHook implements [redis.Hook].
func (*lastMaster) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (*lastMaster) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
