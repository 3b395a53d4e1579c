package caddymodule

import (
	"context"
	"net/http"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// traceOutcome puts what became of the request on the span that Caddy's
// tracing directive has begun, and takes card numbers off it. It costs nothing
// where there is none.
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
	if original, ok := ctx.Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && cardlog.HidesCardNumber(original.URL.Path) {
		// In the place of the path that the tracing directive has noted.
		span.SetAttributes(attribute.String("url.path", cardlog.MaskPath(original.URL.Path)))
	}
}
