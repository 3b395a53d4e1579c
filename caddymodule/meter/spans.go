package meter

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
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
	SpanTranslate = "card_gateway.translate"
	spanIssuer    = "card_gateway.issuer"
)

// storeRedis is the name of the store that is another system.
const storeRedis = "redis"

// Spans are the spans of a request. The zero value is of a request that nobody
// traces, and costs nothing.
type Spans struct {
	Request trace.Span // of Caddy's handler tracing; nil: none is recorded
	Issuer  *Span      // nil: no issuer was asked
}

// OnLostSpans sets what is called each time that the collector of traces does not take
// spans, which are lost then.
func OnLostSpans(do func(error)) { otel.SetErrorHandler(otel.ErrorHandlerFunc(do)) }

// Begin notes the span that Caddy's handler tracing has put into the context,
// if it is recorded.
func (s *Spans) Begin(ctx context.Context) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		s.Request = span
	}
}

// Start begins a span below that of the request. It returns nil if nobody traces
// the request.
func (s *Spans) Start(name string) *Span { return s.startKind(name, trace.SpanKindInternal) }

// startKind is start for a span of another kind.
func (s *Spans) startKind(name string, kind trace.SpanKind) *Span {
	if s.Request == nil {
		return nil
	}
	parent := trace.ContextWithSpan(context.Background(), s.Request)
	_, span := s.Request.TracerProvider().Tracer(tracerName).Start(parent, name, trace.WithSpanKind(kind))
	return &Span{span: span}
}

// StartSettle begins the span of a request to the store of that name to settle. A
// store in the process is no other system.
func (s *Spans) StartSettle(store string) *Span {
	if s.Request == nil {
		return nil
	}
	kind := trace.SpanKindInternal
	if store == storeRedis {
		kind = trace.SpanKindClient
	}
	span := s.startKind(spanSettle, kind)
	span.Set("card_gateway.store", store)
	if store == storeRedis {
		span.Set("db.system.name", store)
	}
	return span
}

// StartIssuer begins the span of the issuer's call, unless it has begun. From then
// on the request names it as the parent of the issuer's spans.
func (s *Spans) StartIssuer(r *http.Request) {
	if s.Request == nil || s.Issuer != nil {
		return
	}
	s.Issuer = s.startKind(spanIssuer, trace.SpanKindClient)
	s.Issuer.Set("http.request.method", r.Method)
	renameParent(r.Header, s.Request.SpanContext().SpanID(), s.Issuer.span.SpanContext().SpanID())
}

// Exemplar returns the labels by which an observation of the request names its
// trace, or nil if the trace is not sampled. The id of a trace is the client's text,
// so there are none if it could hold a card number.
func (s *Spans) Exemplar() prometheus.Labels {
	if s.Request == nil || !s.Request.SpanContext().IsSampled() {
		return nil
	}
	parent := s.Request.SpanContext()
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

// A Span is a span below that of a request. All its attributes are from
// closed sets, from the configuration, or from the status of an answer. A nil one
// ignores everything.
type Span struct {
	span  trace.Span
	Ended bool
}

// Set adds texts, given as names and values.
func (c *Span) Set(pairs ...string) {
	if c == nil {
		return
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		c.span.SetAttributes(attribute.String(pairs[i], pairs[i+1]))
	}
}

// Outcome notes the reason why a step was refused, or Accepted. It is an error of
// the span if the fault is not the client's.
func (c *Span) Outcome(reason auth.Reason) {
	if c == nil {
		return
	}
	c.Set("card_gateway.outcome", reason.String())
	if reason.Status() >= http.StatusInternalServerError {
		c.fails(reason.String())
	}
}

// fails makes the span one of a failure of the kind, which is from a closed set.
func (c *Span) fails(kind string) {
	c.Set("error.type", kind)
	c.span.SetStatus(codes.Error, kind)
}

// Answered notes the status of an issuer's answer. It is an error of the span from
// 500 on: an issuer that answers 404 does what it should.
func (c *Span) Answered(status int) {
	c.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		c.fails(strconv.Itoa(status))
	}
}

// Translated ends the span of a translation with the labels that its metric has.
func (c *Span) Translated(operation, variant, direction, result string) {
	c.Set("card_gateway.operation", operation, "card_gateway.variant", variant, "card_gateway.direction", direction, "card_gateway.result", result)
	c.End()
}

// End ends the span, once.
func (c *Span) End() {
	if c == nil || c.Ended {
		return
	}
	c.Ended = true
	MaskSpan(c.span)
	c.span.End()
}

// MaskSpan masks card numbers in the name and the attributes of a span, because
// path, user agent, host, method and addresses are as the client wrote them.
func MaskSpan(span trace.Span) {
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
