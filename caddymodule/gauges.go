package caddymodule

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/card-gateway/card-gateway/caddymodule/logqueue"
	"github.com/card-gateway/card-gateway/caddymodule/version"
)

// The gauges of the store and the keys. Like all collectors they live as long as
// the process.
var (
	storeUp = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "card_gateway_store_up",
		Help: "1 while the store can settle requests, else 0.",
	})

	keysByStatus = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "card_gateway_keys",
		Help: "Keys in the store by status; refreshed in the background, the same on every node.",
	}, []string{"status"})

	keySeals = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "card_gateway_key_seals",
		Help: "Keys in the store by the state of the seal of their record; refreshed in the background.",
	}, []string{"state"})

	keysExpiring = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "card_gateway_keys_expiring",
		Help: "Active keys that expire within the time; refreshed in the background.",
	}, []string{"within"})
)

// The memory for bodies of the configuration that started last.
var (
	currentBodies atomic.Pointer[bodyMemory]

	bodyBytes = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "card_gateway_body_bytes",
		Help: "Bytes of memory that request bodies hold.",
	}, func() float64 { return float64(currentBodies.Load().used.Load()) })

	bodyBytesLimit = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "card_gateway_body_bytes_limit",
		Help: "Bytes of memory that request bodies may hold: body_budget.",
	}, func() float64 { return float64(currentBodies.Load().limit) })
)

// The handlers in dry run, of the configuration that started last.
var dryRunGauge = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "card_gateway_dry_run",
	Help: "Number of card_auth handlers in dry run, which let requests pass that break the rules.",
})

// The certificates that Caddy has loaded to serve, but for those obtained on demand.
// Without one there are no series: 0 would be the year 1970, or a promise.
var (
	certificateEnd = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "card_gateway_certificate_end_seconds",
		Help: "Unix time at which the first of the loaded certificates ends; no series if none is loaded.",
	}, nil)

	certificatesOverdue = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "card_gateway_certificates_overdue",
		Help: "Loaded certificates that should have been renewed: less than a fifth of their life is left, and less than 14 days; no series if none is loaded.",
	}, nil)
)

// The highest replay floor that the store reports.
var replayFloor = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "card_gateway_replay_floor_seconds",
	Help: "Requests stamped before this Unix time are refused, because their nonces may have been lost; 0 without a floor.",
})

// buildInfo is 1 for the running binary.
var buildInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "card_gateway_build_info",
	Help: "1, with the versions of the running binary as labels.",
}, []string{"version", "commit", "caddy", "go"})

// degradations are the troubles in which requests are still settled, a closed
// set:
//
//   - admin: another process has taken the admin socket, or it was removed
//   - audit: lines of the audit log were lost and none can be written, so
//     changes of keys are refused
//   - config: the last configuration was refused, and the one before it runs
//   - drained: an operator took the node out of service, and the time that was
//     named for it is over
//   - keys: the store settles but refuses changes of keys
//   - log: an output of a log hangs, or lines were dropped
//   - nonces: the store has used more than four fifths of the room for them
//   - policy: another gateway on the store has other rules
//   - store: something else that the store reports of itself
var degradations = []string{"admin", "audit", "config", "drained", "keys", "log", "nonces", "policy", "store"}

var degradedGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "card_gateway_degraded",
	Help: "1 while something is in trouble that does not keep requests from being settled, else 0.",
}, []string{"what"})

var logDropped = prometheus.NewCounterFunc(prometheus.CounterOpts{
	Name: "card_gateway_log_dropped_total",
	Help: "Log lines that were lost: the queue of card_queue was full, or its output or that of the audit log failed.",
}, func() float64 { return float64(logqueue.Dropped() + audited.refused.Load()) })

func init() {
	currentBodies.Store(new(bodyMemory))
	b := version.Current()
	buildInfo.WithLabelValues(b.Version, b.Commit, b.Caddy, b.Go).Set(1)
	for _, what := range degradations {
		degradedGauge.WithLabelValues(what)
	}
}
