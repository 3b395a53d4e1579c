package caddymodule

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// traceOutcome puts what became of the request on the span that Caddy's
// tracing directive has begun. It costs nothing where there is none.
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
	if info.Operation != nil {
		span.SetAttributes(attribute.String("card_gateway.operation", info.Operation.Name))
	}
	if info.Key != nil {
		span.SetAttributes(
			attribute.String("card_gateway.key_id", info.Key.ID),
			attribute.String("card_gateway.tenant", info.Key.Tenant))
	}
}
