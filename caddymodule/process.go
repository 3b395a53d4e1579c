package caddymodule

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/caddymodule/offenders"
)

// A processState is what outlives configurations. It begins and ends with the
// process, and nothing of it is stored. Stores and forwarders live in pools: each
// is closed when no configuration uses it any more.
type processState struct {
	began      time.Time // when counting began
	stores     *caddy.UsagePool
	forwarders *caddy.UsagePool

	loads  loadMemory
	loaded struct { // the configuration that runs, or ran last, for the audit record
		sync.Mutex
		fields map[string]json.RawMessage
	}
	drain      drain
	debugUntil atomic.Int64 // each request is logged until then, in nanoseconds of Unix time
	adminLost  atomic.Bool  // the admin socket of the running configuration is not that of this process

	bodies    atomic.Pointer[bodyMemory] // of the configuration that started last
	audit     auditCounts
	offenders offenders.Counter // refusals of existing keys
	refusals  refusalMemory
	issuerLog sampledLog

	// What explaining refusals may cost. A caller that is no key of ours has shares of
	// its own, so that it takes none from those that are.
	explanations, strangers *explanations
}

// process is the state of this process.
var process = newProcess()

func newProcess() *processState {
	p := &processState{
		began: time.Now().UTC().Truncate(time.Second), stores: caddy.NewUsagePool(), forwarders: caddy.NewUsagePool(),
		explanations: newExplanations(), strangers: newExplanations(),
	}
	p.bodies.Store(new(bodyMemory))
	return p
}
