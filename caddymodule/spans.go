package caddymodule

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// spans are the spans of a request. The zero value is of a request that nobody
// traces, and costs nothing.
type spans struct {
	request trace.Span // of Caddy's handler tracing; nil: none is recorded
}

// begin notes the span that Caddy's handler tracing has put into the context,
// if it is recorded.
func (s *spans) begin(ctx context.Context) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		s.request = span
	}
}

// exemplar returns the labels by which an observation of the request names its
// trace, or nil if the trace is not sampled.
func (s *spans) exemplar() prometheus.Labels {
	if s.request == nil || !s.request.SpanContext().IsSampled() {
		return nil
	}
	of := s.request.SpanContext()
	return prometheus.Labels{"trace_id": of.TraceID().String(), "span_id": of.SpanID().String()}
}

// maskSpan masks card numbers in the name and the attributes of a span, because
// path, user agent, host, method and addresses are as the client wrote them.
func maskSpan(span trace.Span) {
	noted, ok := span.(interface {
		Name() string
		Attributes() []attribute.KeyValue
	})
	if !ok {
		return
	}
	if name := noted.Name(); cardlog.HidesCardNumber(name) {
		span.SetName(cardlog.Mask(name))
	}
	for _, a := range noted.Attributes() {
		if text := a.Value.AsString(); a.Value.Type() == attribute.STRING && cardlog.HidesCardNumber(text) {
			span.SetAttributes(attribute.String(string(a.Key), cardlog.Mask(text)))
		}
	}
}
