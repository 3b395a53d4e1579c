package caddymodule

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
)

// The collectors live as long as the process. In Caddy each configuration has
// its own registry, so they are registered again in each, and keep their
// values. All labels are from closed sets.
var (
	requestsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "card_gateway_requests_total",
		Help: "Requests by operation and outcome: accepted, or the reason of the refusal.",
	}, []string{"operation", "outcome"})

	overheadSeconds = newHistogramVec(prometheus.HistogramOpts{
		Name:    "card_gateway_overhead_seconds",
		Help:    "Time that a request spent in the gateway; waiting for the client's body and for the upstream is left out.",
		Buckets: []float64{.000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1},
	}, []string{"operation"})

	limitDecisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "card_gateway_rate_limit_decisions_total",
		Help: "Decisions on rate limits by operation; near means that under a fifth of the tightest bucket is left.",
	}, []string{"operation", "decision"})

	translationsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "card_gateway_translations_total",
		Help: "Customer bodies by variant, direction and result of the translation.",
	}, []string{"variant", "direction", "result"})

	clockSkewSeconds = prometheus.NewHistogram(withNative(prometheus.HistogramOpts{
		Name:    "card_gateway_clock_skew_seconds",
		Help:    "The server's clock minus X-Timestamp of correctly signed requests.",
		Buckets: []float64{-600, -300, -120, -60, -30, -10, -5, -2, 0, 2, 5, 10, 30, 60, 120, 300, 600},
	}, nativeFromSkew))

	forgedRecordsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "card_gateway_forged_records_total",
		Help: "Readings of a key's record that was refused because something other than a gateway changed it, by field.",
	}, []string{"field"})

	keyLocksTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "card_gateway_key_locks_total",
		Help: "Keys locked by consecutive authentication failures.",
	})
)

// Decisions on rate limits, a closed set.
const (
	limitAllowed = iota
	limitNear
	limitRefused
	limitWouldRefuse
	limitDecisionCount
)

var limitDecisionNames = [limitDecisionCount]string{"allowed", "near", "refused", "would_refuse"}

// Closed sets of the translation's labels.
var (
	translationVariants   = []string{"A", "B", "C", "none"}
	translationDirections = []string{"request", "answer"}
	translationResults    = []string{"ok", "invalid", "failed", "unchanged"}
)

// metrics holds the collectors' metrics of each operation of one configuration,
// so that a request needs no look-up by labels.
type metrics struct {
	operations []operationMetrics // by Operation.Index
}

type operationMetrics struct {
	accepted    prometheus.Counter
	refused     []prometheus.Counter // by reason
	wouldRefuse []prometheus.Counter // by reason
	overhead    prometheus.ExemplarObserver
	limits      [limitDecisionCount]prometheus.Counter
	upstream    upstreamMetrics // zero where no issuer is asked
}

// newMetrics registers the collectors and initialises every combination of
// labels that can occur.
func newMetrics(registry *prometheus.Registry, table *auth.Table) (*metrics, error) {
	for _, collector := range []prometheus.Collector{
		requestsTotal, overheadSeconds, storeSeconds, storeUp, limitDecisions, translationsTotal,
		clockSkewSeconds, keyLocksTotal, keysByStatus, keysExpiring, keySeals, forgedRecordsTotal, buildInfo, bodyBytes, bodyBytesLimit, storeQueue,
		upstreamSeconds, upstreamResponses, upstreamConnections,
		degradedGauge, dryRunGauge, replayFloor, certificateEnd, certificatesOverdue, logDropped, explanationsTotal, signedAnswers,
	} {
		if err := registry.Register(collector); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			return nil, fmt.Errorf("registering: %w", err)
		}
	}
	m := new(metrics)
	for _, operation := range table.Operations() {
		o := newOperationMetrics(operation.Name)
		if !operation.Own {
			o.upstream = newUpstreamMetrics(operation.Name)
		}
		m.operations = append(m.operations, o)
	}
	for _, field := range keys.ForgedFields() {
		forgedRecordsTotal.WithLabelValues(field)
	}
	for _, variant := range translationVariants {
		for _, direction := range translationDirections {
			for _, result := range translationResults {
				translationsTotal.WithLabelValues(variant, direction, result)
			}
		}
	}
	return m, nil
}

func newOperationMetrics(name string) operationMetrics {
	o := operationMetrics{overhead: overheadSeconds.WithLabelValues(name).(prometheus.ExemplarObserver)}
	for _, reason := range auth.Reasons() {
		counter := requestsTotal.WithLabelValues(name, reason.String())
		if reason == auth.Accepted {
			o.accepted = counter
		}
		o.refused = append(o.refused, counter)
		if dryRunLetsPass(reason) {
			counter = requestsTotal.WithLabelValues(name, wouldRefuse[reason])
		}
		o.wouldRefuse = append(o.wouldRefuse, counter)
	}
	for decision, label := range limitDecisionNames {
		o.limits[decision] = limitDecisions.WithLabelValues(name, label)
	}
	return o
}

func observeSkew(skew time.Duration) { clockSkewSeconds.Observe(skew.Seconds()) }

// observeTranslation counts a translation. The labels are members of the
// closed sets above.
func observeTranslation(variant, direction, result string) {
	translationsTotal.WithLabelValues(variant, direction, result).Inc()
}
