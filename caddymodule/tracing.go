package caddymodule

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// traceOutcome adds the outcome of the request to the span of Caddy's tracing
// directive, and masks card numbers in its other attributes. It costs nothing
// without a span.
func traceOutcome(ctx context.Context, info *requestInfo) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("card_gateway.outcome", info.outcome()),
		attribute.String("card_gateway.request_id", info.RequestID),
		attribute.Float64("card_gateway.overhead_seconds", info.overhead.Seconds()),
	)
	info.fields(func(name, value string) { span.SetAttributes(attribute.String("card_gateway."+name, value)) })
	maskSpan(span)
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
