package meter

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics of each issuer of card_forward. All its series exist from the start.
var (
	UpstreamConnections = gauges("card_gateway_upstream_connections",
		"Open connections of card_forward by issuer.", "issuer")

	issuerInFlight = gauges("card_gateway_upstream_in_flight_requests",
		"Requests that card_forward has given to an issuer, and whose answers have not ended.", "issuer")

	issuerOut = gauges("card_gateway_upstream_out",
		"Number of card_forward handlers that have taken an issuer out, by failures or an active check; 0: it is in.", "issuer")

	issuerOutSeconds = counters("card_gateway_upstream_out_seconds_total",
		"How long an issuer was out: until it answers a request or an active check.", "issuer")

	issuerResponses = counters("card_gateway_upstream_issuer_responses_total",
		"What an issuer answered card_forward, by status; 4xx: another one; error and timeout: it gave no usable answer. An attempt that another issuer made good counts too.", "issuer", "class")

	issuerSeconds = histograms("card_gateway_upstream_issuer_seconds",
		"Time until the head of an issuer's answer to card_forward, or until its failure.",
		[]float64{.1, .5, 1, 5}, "issuer")
)

// issuerClasses are the values of the label class of one issuer, a closed set.
var issuerClasses = []string{"2xx", "3xx", "4xx", "5xx", "401", "403", "429", "error", "timeout"}

// An Issuer has the metrics of one issuer.
type Issuer struct {
	Connections, InFlight, Out prometheus.Gauge
	OutSeconds                 prometheus.Counter
	seconds                    prometheus.Observer
	responses                  map[string]prometheus.Counter
}

// NewIssuer returns the metrics of the issuer with the address, which the configuration
// has named.
func NewIssuer(address string) *Issuer {
	m := &Issuer{
		Connections: UpstreamConnections.WithLabelValues(address), InFlight: issuerInFlight.WithLabelValues(address),
		Out: issuerOut.WithLabelValues(address), OutSeconds: issuerOutSeconds.WithLabelValues(address),
		seconds: issuerSeconds.WithLabelValues(address), responses: make(map[string]prometheus.Counter),
	}
	for _, class := range issuerClasses {
		m.responses[class] = issuerResponses.WithLabelValues(address, class)
	}
	return m
}

// Observe counts an answer of the class, or the failure to give one, and the time that it
// took.
func (m *Issuer) Observe(class string, took time.Duration) {
	m.responses[class].Inc()
	m.seconds.Observe(took.Seconds())
}

// IssuerClass returns the class of an answer with the status.
func IssuerClass(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "401"
	case http.StatusForbidden:
		return "403"
	case http.StatusTooManyRequests:
		return "429"
	default:
		return UpstreamClasses[status/100-2]
	}
}
