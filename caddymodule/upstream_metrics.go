package caddymodule

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/card-gateway/card-gateway/auth"
)

// The metrics of the upstream. card_auth measures them, for every handler behind
// it.
var (
	upstreamSeconds = newHistogramVec(prometheus.HistogramOpts{
		Name:    "card_gateway_upstream_seconds",
		Help:    "Time from a request's handing over to the upstream to the head of its answer, or to its failure.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"operation"})

	upstreamResponses = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "card_gateway_upstream_responses_total",
		Help: "What the upstream answered, by operation and class of the status; error and timeout: it gave no usable answer.",
	}, []string{"operation", "class"})

	upstreamConnections = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "card_gateway_upstream_connections",
		Help: "Open connections of card_forward by issuer.",
	}, []string{"issuer"})
)

// Classes of what the upstream answered, a closed set.
const (
	classNone = iota - 1 // the request was not sent, or the client left before
	class2xx
	class3xx
	class4xx
	class5xx
	classError
	classTimeout
	classCount
)

var upstreamClasses = [classCount]string{"2xx", "3xx", "4xx", "5xx", "error", "timeout"}

// An upstreamAnswer is the time when the request was handed to the upstream, and
// the result.
type upstreamAnswer struct {
	asked  time.Time // zero: it was not
	status int       // of the final answer; 0: none has arrived
	took   time.Duration
}

// came notes the final status of the upstream's answer. One above 599 is no answer:
// the request ends with a refusal.
func (u *upstreamAnswer) came(status int) {
	if u.status == 0 && status <= 599 && !u.asked.IsZero() {
		u.status, u.took = status, time.Since(u.asked)
	}
}

// class returns the class of the answer, given the refusal with which the
// request ended, if any.
func (u *upstreamAnswer) class(refusal *auth.Refusal) int {
	switch {
	case u.asked.IsZero():
		return classNone
	case u.status > 0:
		return u.status/100 - 2
	case refusal == nil:
		return classNone
	}
	switch refusal.Reason {
	case auth.UpstreamError:
		return classError
	case auth.UpstreamTimeout:
		return classTimeout
	default:
		return classNone
	}
}

// upstreamMetrics are the metrics of one operation.
type upstreamMetrics struct {
	seconds   prometheus.ExemplarObserver
	responses [classCount]prometheus.Counter
}

func newUpstreamMetrics(operation string) upstreamMetrics {
	m := upstreamMetrics{seconds: upstreamSeconds.WithLabelValues(operation).(prometheus.ExemplarObserver)}
	for class, label := range upstreamClasses {
		m.responses[class] = upstreamResponses.WithLabelValues(operation, label)
	}
	return m
}

// observe counts the answer to a request that ended with the refusal, if any. The
// exemplar may be nil.
func (m *upstreamMetrics) observe(answer *upstreamAnswer, refusal *auth.Refusal, exemplar prometheus.Labels) {
	class := answer.class(refusal)
	if class == classNone {
		return
	}
	if answer.status == 0 {
		answer.took = time.Since(answer.asked)
	}
	m.seconds.ObserveWithExemplar(answer.took.Seconds(), exemplar)
	m.responses[class].Inc()
}
