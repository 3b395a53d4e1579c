package redis

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// Options are the place of Redis and the settings of the store.
type Options struct {
	// The servers, and the connections to them.
	rpc.Options

	// Prefix is the start of every Redis key. Gateways with different prefixes
	// share nothing. Default: "cg:".
	Prefix string

	// SettleTimeout is how long settling a request may take in all, even if the
	// client has gone. Default: 200 ms.
	SettleTimeout time.Duration
	// ChangeTimeout is how long changes of keys and checks of the servers may
	// take. Default: 2 s.
	ChangeTimeout time.Duration
	// MaxNoncesPerKey is the most live nonces of one key; the next request gets
	// [store.ErrFull]. 0 means a million, a negative number no limit. The server's
	// own maxmemory limits all nonces together.
	MaxNoncesPerKey int

	// RuntimeDir is the directory of a small file that holds until when this
	// gateway has accepted requests, and on which servers. It belongs to this
	// process and must outlive it, such as a directory in /run. If it is empty, a
	// gateway that was cut off with an old master and killed does not know what it
	// accepted there.
	RuntimeDir string

	// now, when set, replaces the clock by which checks are made. Only tests set it.
	now func() time.Time
}

const defaultMaxNonces = 1_000_000

func (o Options) withDefaults() (Options, error) {
	switch {
	case strings.ContainsAny(o.Prefix, "{} \r\n"):
		return o, fmt.Errorf("redis: prefix %q must not hold braces, spaces or line ends", o.Prefix)
	case o.SettleTimeout < 0 || o.ChangeTimeout < 0:
		return o, errors.New("redis: timeouts must not be negative")
	}
	o.Prefix = cmp.Or(o.Prefix, "cg:")
	o.SettleTimeout = cmp.Or(o.SettleTimeout, 200*time.Millisecond)
	o.ChangeTimeout = cmp.Or(o.ChangeTimeout, 2*time.Second)
	o.MaxNoncesPerKey = cmp.Or(o.MaxNoncesPerKey, defaultMaxNonces)
	if o.now == nil {
		o.now = time.Now
	}
	return o, nil
}
