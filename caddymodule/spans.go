package caddymodule

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// tracerName is the instrumentation scope of the gateway's spans.
const tracerName = "github.com/card-gateway/card-gateway"

// Names of the spans below that of the request, a closed set.
const (
	spanSettle    = "card_gateway.settle"
	spanTranslate = "card_gateway.translate"
	spanIssuer    = "card_gateway.issuer"
)

// storeRedis is the name of the store that is another system.
const storeRedis = "redis"

// spans are the spans of a request. The zero value is of a request that nobody
// traces, and costs nothing.
type spans struct {
	request trace.Span // of Caddy's handler tracing; nil: none is recorded
	issuer  *childSpan // nil: no issuer was asked
}

// begin notes the span that Caddy's handler tracing has put into the context,
// if it is recorded.
func (s *spans) begin(ctx context.Context) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		s.request = span
	}
}

// start begins a span below that of the request. It returns nil if nobody traces
// the request.
func (s *spans) start(name string) *childSpan { return s.startKind(name, trace.SpanKindInternal) }

// startKind is start for a span of another kind.
func (s *spans) startKind(name string, kind trace.SpanKind) *childSpan {
	if s.request == nil {
		return nil
	}
	parent := trace.ContextWithSpan(context.Background(), s.request)
	_, span := s.request.TracerProvider().Tracer(tracerName).Start(parent, name, trace.WithSpanKind(kind))
	return &childSpan{span: span}
}

// startSettle begins the span of a request to the store of that name to settle. A
// store in the process is no other system.
func (s *spans) startSettle(store string) *childSpan {
	if s.request == nil {
		return nil
	}
	kind := trace.SpanKindInternal
	if store == storeRedis {
		kind = trace.SpanKindClient
	}
	span := s.startKind(spanSettle, kind)
	span.set("card_gateway.store", store)
	if store == storeRedis {
		span.set("db.system.name", store)
	}
	return span
}

// startIssuer begins the span of the issuer's call, unless it has begun. From then
// on the request names it as the parent of the issuer's spans.
func (s *spans) startIssuer(r *http.Request) {
	if s.request == nil || s.issuer != nil {
		return
	}
	s.issuer = s.startKind(spanIssuer, trace.SpanKindClient)
	s.issuer.set("http.request.method", r.Method)
	renameParent(r.Header, s.request.SpanContext().SpanID(), s.issuer.span.SpanContext().SpanID())
}

// exemplar returns the labels by which an observation of the request names its
// trace, or nil if the trace is not sampled. The id of a trace is the client's text,
// so there are none if it could hold a card number.
func (s *spans) exemplar() prometheus.Labels {
	if s.request == nil || !s.request.SpanContext().IsSampled() {
		return nil
	}
	parent := s.request.SpanContext()
	if cardlog.HidesCardNumber(parent.TraceID().String()) {
		return nil
	}
	return prometheus.Labels{"trace_id": parent.TraceID().String(), "span_id": parent.SpanID().String()}
}

// propagated are the headers in which OpenTelemetry's propagators write the id of
// a span: W3C, B3 in both forms, Jaeger, X-Ray and OpenTracing.
var propagated = []string{"Traceparent", "B3", "X-B3-Spanid", "Uber-Trace-Id", "X-Amzn-Trace-Id", "Ot-Tracer-Spanid"}

// renameParent replaces the id of a span in the headers in which Caddy's handler
// tracing has written it. Which these are depends on OTEL_PROPAGATORS.
func renameParent(h http.Header, from, to trace.SpanID) {
	for _, name := range propagated {
		values := h[name]
		if len(values) != 1 {
			continue
		}
		if at := strings.LastIndex(values[0], from.String()); at >= 0 {
			h[name] = []string{values[0][:at] + to.String() + values[0][at+len(from.String()):]}
		}
	}
}

// A childSpan is a span below that of a request. All its attributes are from
// closed sets, from the configuration, or from the status of an answer. A nil one
// ignores everything.
type childSpan struct {
	span  trace.Span
	ended bool
}

// set adds texts, given as names and values.
func (c *childSpan) set(pairs ...string) {
	if c == nil {
		return
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		c.span.SetAttributes(attribute.String(pairs[i], pairs[i+1]))
	}
}

// outcome notes the reason why a step was refused, or Accepted. It is an error of
// the span if the fault is not the client's.
func (c *childSpan) outcome(reason auth.Reason) {
	if c == nil {
		return
	}
	c.set("card_gateway.outcome", reason.String())
	if reason.Status() >= http.StatusInternalServerError {
		c.fails(reason.String())
	}
}

// fails makes the span one of a failure of the kind, which is from a closed set.
func (c *childSpan) fails(kind string) {
	c.set("error.type", kind)
	c.span.SetStatus(codes.Error, kind)
}

// answered notes the status of an issuer's answer. It is an error of the span from
// 500 on: an issuer that answers 404 does what it should.
func (c *childSpan) answered(status int) {
	c.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		c.fails(strconv.Itoa(status))
	}
}

// translated ends the span of a translation with the labels that its metric has.
func (c *childSpan) translated(operation, variant, direction, result string) {
	c.set("card_gateway.operation", operation, "card_gateway.variant", variant, "card_gateway.direction", direction, "card_gateway.result", result)
	c.end()
}

// end ends the span, once.
func (c *childSpan) end() {
	if c == nil || c.ended {
		return
	}
	c.ended = true
	maskSpan(c.span)
	c.span.End()
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
