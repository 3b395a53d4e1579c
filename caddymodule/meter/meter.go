// Package meter counts and traces what the handlers of Caddy do with requests, and is
// of use to nothing else. All labels of metrics and attributes of spans are from closed
// sets.
//
// Begin with [New], which registers the metrics. The spans of a request are in spans,
// the calls of the store in store, what issuers do in issuer; read reads the collectors for
// the console.
package meter

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/version"
	"github.com/card-gateway/card-gateway/gate"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/keys"
)

// The collectors live as long as the process. In Caddy each configuration has
// its own registry, so they are registered again in each, and keep their
// values. All labels are from closed sets.
//
// A series of several labels is made when what it counts first happens: most never does,
// and each operation would add a hundred. Rate and increase do not see the count with
// which a series appears, so what an alert rates is made in advance.
var (
	RequestsTotal = counters("card_gateway_requests_total",
		"Requests by operation and outcome: accepted, or the reason of the refusal.", "operation", "outcome")

	overheadSeconds = histograms("card_gateway_overhead_seconds",
		"Time that a request spent in the gateway; waiting for the client's body and for the upstream is left out.",
		[]float64{.000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}, "operation")

	LimitDecisions = counters("card_gateway_rate_limit_decisions_total",
		"Decisions on rate limits by operation; near means that under a fifth of the tightest bucket is left.", "operation", "decision")

	TranslationsTotal = counters("card_gateway_translations_total",
		"Customer bodies by variant, direction and result of the translation.", "variant", "direction", "result")

	clockSkewSeconds = prometheus.NewHistogram(withNative(prometheus.HistogramOpts{
		Name:    "card_gateway_clock_skew_seconds",
		Help:    "The server's clock minus X-Timestamp of correctly signed requests.",
		Buckets: []float64{-600, -300, -120, -60, -30, -10, -5, -2, 0, 2, 5, 10, 30, 60, 120, 300, 600},
	}, nativeFromSkew))

	ForgedRecordsTotal = counters("card_gateway_forged_records_total",
		"Readings of a key's record that was refused because something other than a gateway changed it, by field.", "field")

	RepeatedRequests = prometheus.NewCounter(prometheus.CounterOpts{Name: "card_gateway_repeated_requests_total", Help: "Requests with a used nonce and a right signature: a client has repeated its own request, or it was copied as a whole. They are also in card_gateway_requests_total as replayed_nonce."})
	DroppedHeaders   = prometheus.NewCounter(prometheus.CounterOpts{Name: "card_gateway_dropped_headers_total", Help: "Headers of clients that did not reach the issuer of a forwarded request, because no option names them."})

	KeyLocksTotal = prometheus.NewCounter(prometheus.CounterOpts{Name: "card_gateway_key_locks_total", Help: "Keys locked by consecutive authentication failures."})

	UncountedFailures = prometheus.NewCounter(prometheus.CounterOpts{Name: "card_gateway_uncounted_failures_total", Help: "Authentication failures that did not count towards the lock of a key that others use, because their address had added its share."})
)

// Decisions on rate limits, a closed set.
const (
	LimitAllowed = iota
	LimitNear
	LimitRefused
	LimitWouldRefuse
	limitDecisionCount
)

// LimitDecisionNames are the values of the label decision, by decision.
var LimitDecisionNames = [limitDecisionCount]string{"allowed", "near", "refused", "would_refuse"}

// translationVariants are the values of the label variant, a closed set.
var translationVariants = []string{"A", "B", "C", "none"}

// Metrics holds the collectors' metrics of each operation of one configuration,
// so that a request needs no look-up by labels.
type Metrics struct {
	Operations []operationMetrics // by Operation.Index
}

type operationMetrics struct {
	Refused     []lateCounter // by reason, Accepted among them
	WouldRefuse []lateCounter // by reason
	Overhead    lateHistogram
	Limits      [limitDecisionCount]lateCounter
	Upstream    upstreamMetrics
}

// A lateCounter returns its counter, which scrapes show from the first call on. Only
// that call looks the labels up.
type lateCounter = func() prometheus.Counter

func late(vec *prometheus.CounterVec, labels ...string) lateCounter {
	return sync.OnceValue(func() prometheus.Counter { return vec.WithLabelValues(labels...) })
}

// A lateHistogram is a lateCounter for a histogram.
type lateHistogram = func() prometheus.ExemplarObserver

func lateHistograms(vec *prometheus.HistogramVec, labels ...string) lateHistogram {
	return sync.OnceValue(func() prometheus.ExemplarObserver {
		return vec.WithLabelValues(labels...).(prometheus.ExemplarObserver)
	})
}

// ratedOutcomes are those that alerts name, and ratedUpstream those of them that only a
// request to an issuer can have.
var (
	ratedOutcomes = []auth.Reason{auth.Accepted, auth.ReplayedNonce, auth.OverBudget, auth.InternalError}
	ratedUpstream = []auth.Reason{auth.UpstreamError, auth.UpstreamTimeout}
)

// New registers the collectors and others, and makes the series that alerts rate.
func New(registry *prometheus.Registry, table *auth.Table, others ...prometheus.Collector) (*Metrics, error) {
	for _, collector := range append([]prometheus.Collector{
		RequestsTotal, overheadSeconds, storeSeconds, StoreUp, LimitDecisions, TranslationsTotal,
		clockSkewSeconds, RepeatedRequests, DroppedHeaders, KeyLocksTotal, UncountedFailures, KeysByStatus, KeysExpiring, KeySeals, ForgedRecordsTotal, buildInfo, bodyBytes, bodyBytesLimit, storeQueue,
		upstreamSeconds, UpstreamResponses,
		UpstreamConnections, issuerInFlight, issuerOut, issuerOutSeconds, issuerResponses, issuerSeconds,
		DegradedGauge, DryRunGauge, ReplayFloor, CertificateEnd, CertificatesOverdue, explanationsTotal, signedAnswers,
	}, others...) {
		if err := registry.Register(collector); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
			return nil, fmt.Errorf("registering: %w", err)
		}
	}
	m := new(Metrics)
	for _, operation := range table.Operations() {
		o := newOperationMetrics(operation.Name)
		o.makeRated()
		if !operation.Own { // the gateway answers those itself
			o.makeRatedUpstream()
		}
		m.Operations = append(m.Operations, o)
	}
	for _, field := range keys.ForgedFields() {
		ForgedRecordsTotal.WithLabelValues(field)
	}
	for _, variant := range translationVariants {
		TranslationsTotal.WithLabelValues(variant, "answer", "failed")
	}
	return m, nil
}

func newOperationMetrics(name string) operationMetrics {
	o := operationMetrics{Overhead: lateHistograms(overheadSeconds, name), Upstream: newUpstreamMetrics(name)}
	for _, reason := range auth.Reasons() {
		counter := late(RequestsTotal, name, reason.String())
		o.Refused = append(o.Refused, counter)
		if gate.DryRunPasses(reason) {
			counter = late(RequestsTotal, name, WouldRefuse[reason])
		}
		o.WouldRefuse = append(o.WouldRefuse, counter)
	}
	for decision, label := range LimitDecisionNames {
		o.Limits[decision] = late(LimitDecisions, name, label)
	}
	return o
}

// makeRated makes the series that alerts rate.
func (o *operationMetrics) makeRated() {
	for _, reason := range ratedOutcomes {
		o.Refused[reason]()
	}
	o.Limits[LimitAllowed]()
	o.Limits[LimitRefused]()
}

// makeRatedUpstream makes those of an operation that an issuer answers.
func (o *operationMetrics) makeRatedUpstream() {
	for _, reason := range ratedUpstream {
		o.Refused[reason]()
	}
	for _, class := range ratedClasses {
		o.Upstream.responses[class]()
	}
}

// ObserveSkew observes how far the server's clock is ahead of a request's timestamp.
func ObserveSkew(skew time.Duration) { clockSkewSeconds.Observe(skew.Seconds()) }

// ObserveTranslation counts a translation. The labels are members of
// closed sets: direction is request or answer, result ok, invalid, failed or unchanged.
func ObserveTranslation(variant, direction, result string) {
	TranslationsTotal.WithLabelValues(variant, direction, result).Inc()
}

// The gauges of the store and the keys. Like all collectors they live as long as
// the process.
var (
	StoreUp = gauge("card_gateway_store_up",
		"1 while the store can settle requests, else 0.")

	KeysByStatus = gauges("card_gateway_keys",
		"Keys in the store by status; refreshed in the background, the same on every node.", "status")

	KeySeals = gauges("card_gateway_key_seals",
		"Keys in the store by the state of the seal of their record; refreshed in the background.", "state")

	KeysExpiring = gauges("card_gateway_keys_expiring",
		"Active keys that expire within the time; refreshed in the background.", "within")
)

// ShownBodies is the memory for bodies of the configuration that started last.
var ShownBodies atomic.Pointer[held.Memory]

var (
	bodyBytes = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "card_gateway_body_bytes", Help: "Bytes of memory that request bodies hold."}, func() float64 { return float64(ShownBodies.Load().Used()) })

	bodyBytesLimit = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "card_gateway_body_bytes_limit", Help: "Bytes of memory that request bodies may hold: body_budget."}, func() float64 { return float64(ShownBodies.Load().Limit()) })
)

// DryRunGauge has the number of handlers in dry run, of the configuration that started last.
var DryRunGauge = gauge("card_gateway_dry_run",
	"Number of card_auth handlers in dry run, which let requests pass that break the rules.")

// The certificates that Caddy has loaded to serve, but for those obtained on demand (use
// server), and those that card_forward shows to issuers (use client). Without one there
// are no series: 0 would be the year 1970, or a promise.
var (
	CertificateEnd = gauges("card_gateway_certificate_end_timestamp_seconds",
		"Unix time at which the first of the loaded certificates ends, by use; no series if none is loaded.", "use")

	CertificatesOverdue = gauges("card_gateway_certificates_overdue",
		"Loaded certificates that should have been renewed, by use: less than a fifth of their life is left, and less than 14 days; no series if none is loaded.", "use")
)

// ReplayFloor has the highest replay floor that the store reports.
var ReplayFloor = gauge("card_gateway_replay_floor_seconds",
	"Requests stamped before this Unix time are refused, because their nonces may have been lost; 0 without a floor.")

// buildInfo is 1 for the running binary.
var buildInfo = gauges("card_gateway_build_info",
	"1, with the versions of the running binary as labels.", "version", "commit", "caddy", "go")

// Degradations are the troubles in which requests are still settled, a closed
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
var Degradations = []string{"admin", "audit", "config", "drained", "keys", "log", "nonces", "policy", "store"}

// DegradedGauge has a value for each of Degradations.
var DegradedGauge = gauges("card_gateway_degraded",
	"1 while something is in trouble that does not keep requests from being settled, else 0.", "what")

func init() {
	ShownBodies.Store(held.NewMemory("body_budget", 0, 0, 0))
	b := version.Current()
	buildInfo.WithLabelValues(b.Version, b.Commit, b.Caddy, b.Go).Set(1)
	for _, what := range Degradations {
		DegradedGauge.WithLabelValues(what)
	}
}

// counters returns a counter for each combination of the labels.
func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// gauges returns a gauge for each combination of the labels.
func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// A native histogram needs no bounds: a bucket is at most a tenth wider than its
// lower bound. That is eight buckets for each doubling, so 200 of them hold all
// times from a microsecond to half a minute. Should more be needed, as by a clock
// that is off by years, the histogram begins anew, at most once an hour, and has
// coarser buckets until then.
const (
	nativeFactor  = 1.1
	nativeBuckets = 200
	nativeReset   = time.Hour
	// From here on, values are in buckets; smaller ones are zero.
	nativeFromTime = time.Microsecond
	// X-Timestamp has whole seconds.
	nativeFromSkew = 500 * time.Millisecond
)

// histograms returns a histogram for each combination of the labels that has a native
// one beside its classic buckets. Only a scrape in protobuf shows the native one.
func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(withNative(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, nativeFromTime), labels)
}

// withNative returns the options with a native histogram, whose zero bucket ends
// at from.
func withNative(opts prometheus.HistogramOpts, from time.Duration) prometheus.HistogramOpts {
	opts.NativeHistogramBucketFactor = nativeFactor
	opts.NativeHistogramMaxBucketNumber = nativeBuckets
	opts.NativeHistogramMinResetDuration = nativeReset
	opts.NativeHistogramZeroThreshold = from.Seconds()
	return opts
}

// The metrics of the upstream. card_auth measures them, for every handler behind
// it.
var (
	upstreamSeconds = histograms("card_gateway_upstream_seconds",
		"Time from a request's handing over to the upstream to the head of its answer, or to its failure.",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "operation")

	UpstreamResponses = counters("card_gateway_upstream_responses_total",
		"What the upstream answered, by operation and class of the status; error and timeout: it gave no usable answer.", "operation", "class")
)

// Classes of what the upstream answered, a closed set.
const (
	ClassNone = iota - 1 // the request was not sent, or the client left before
	class2xx
	class3xx
	class4xx
	class5xx
	classError
	classTimeout
	classCount
)

// UpstreamClasses are the values of the label class, by class.
var UpstreamClasses = [classCount]string{"2xx", "3xx", "4xx", "5xx", "error", "timeout"}

// An IssuerAnswer is the time when the request was handed to the upstream, and
// the result.
type IssuerAnswer struct {
	Asked  time.Time // zero: it was not
	Status int       // of the final answer; 0: none has arrived
	took   time.Duration
}

// NoteStatus notes the final status of the upstream's answer. One above 599 is no answer:
// the request ends with a refusal.
func (u *IssuerAnswer) NoteStatus(status int) {
	if u.Status == 0 && status <= 599 && !u.Asked.IsZero() {
		u.Status, u.took = status, time.Since(u.Asked)
	}
}

// Class returns the class of the answer, given the refusal with which the
// request ended, if any.
func (u *IssuerAnswer) Class(refusal *auth.Refusal) int {
	switch {
	case u.Asked.IsZero():
		return ClassNone
	case u.Status > 0:
		return u.Status/100 - 2
	case refusal == nil:
		return ClassNone
	}
	switch refusal.Reason {
	case auth.UpstreamError:
		return classError
	case auth.UpstreamTimeout:
		return classTimeout
	default:
		return ClassNone
	}
}

// ratedClasses are those of which the share of failures is made. An issuer rarely answers
// otherwise.
var ratedClasses = []int{class2xx, class5xx, classError, classTimeout}

// upstreamMetrics are the metrics of one operation.
type upstreamMetrics struct {
	seconds   lateHistogram
	responses [classCount]lateCounter
}

func newUpstreamMetrics(operation string) upstreamMetrics {
	m := upstreamMetrics{seconds: lateHistograms(upstreamSeconds, operation)}
	for class, label := range UpstreamClasses {
		m.responses[class] = late(UpstreamResponses, operation, label)
	}
	return m
}

// Observe counts the answer to a request that ended with the refusal, if any. The
// exemplar may be nil.
func (m *upstreamMetrics) Observe(answer *IssuerAnswer, refusal *auth.Refusal, exemplar prometheus.Labels) {
	class := answer.Class(refusal)
	if class == ClassNone {
		return
	}
	if answer.Status == 0 {
		answer.took = time.Since(answer.Asked)
	}
	m.seconds().ObserveWithExemplar(answer.took.Seconds(), exemplar)
	m.responses[class]().Inc()
}

// WouldRefuse holds the outcomes of a dry run by reason.
var WouldRefuse = func() []string {
	names := make([]string, len(auth.Reasons()))
	for _, reason := range auth.Reasons() {
		names[reason] = "would_refuse_" + reason.String()
	}
	return names
}()

// explanationsTotal counts refusals that could be explained.
var explanationsTotal = counters("card_gateway_explanations_total",
	"Refusals that the gateway could explain, by result: given, or skipped because the key, the address or the process had its share.", "result")

// Refusals that were explained, and those that were not.
var (
	ExplanationsGiven   = explanationsTotal.WithLabelValues("given")
	ExplanationsSkipped = explanationsTotal.WithLabelValues("skipped")
)

var signedAnswers = counters("card_gateway_signed_answers_total",
	"Answers to be signed: signed, or streamed without a signature because they could not be held.", "result")

// Answers to be signed that were, and those that were streamed without.
var (
	AnswersSigned   = signedAnswers.WithLabelValues("signed")
	AnswersUnsigned = signedAnswers.WithLabelValues("unsigned")
)
