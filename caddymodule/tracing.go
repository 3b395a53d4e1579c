package caddymodule

import "go.opentelemetry.io/otel/attribute"

// traceOutcome adds the outcome of the request to its span, and masks card
// numbers in the other attributes. It costs nothing without a span.
func traceOutcome(info *requestInfo) {
	span := info.spans.request
	if span == nil {
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
