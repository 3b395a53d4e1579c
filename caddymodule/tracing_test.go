package caddymodule

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/request"
)

// notedSpan keeps its attributes, as the spans of a collector do.
type notedSpan struct {
	noop.Span
	name       string
	attributes map[attribute.Key]attribute.Value
}

func (*notedSpan) IsRecording() bool     { return true }
func (s *notedSpan) Name() string        { return s.name }
func (s *notedSpan) SetName(name string) { s.name = name }

func (s *notedSpan) Attributes() (all []attribute.KeyValue) {
	for key, value := range s.attributes {
		all = append(all, attribute.KeyValue{Key: key, Value: value})
	}
	return all
}

func (s *notedSpan) SetAttributes(all ...attribute.KeyValue) {
	for _, a := range all {
		s.attributes[a.Key] = a.Value
	}
}

// A card number is masked in every attribute of a span that a client can write.
func TestSpanHoldsNoCardNumber(t *testing.T) {
	span := &notedSpan{name: "GET /cards/4111111111111111", attributes: make(map[attribute.Key]attribute.Value)}
	span.SetAttributes(
		attribute.String("url.path", "/api/v1/cards/4111_1111_1111_1111"), attribute.String("user_agent.original", "4111 1111 1111 1111"),
		attribute.String("server.address", "api.example"), attribute.Int64("http.request.body.size", 4111111111111111))
	info := &request.Info{RequestID: "r1"}
	info.Spans.Begin(trace.ContextWithSpan(t.Context(), span))
	request.TraceOutcome(info)
	for key, want := range map[attribute.Key]string{
		"url.path": "/api/v1/cards/***", "user_agent.original": "***", "server.address": "api.example", "card_gateway.request_id": "r1",
	} {
		if got := span.attributes[key].AsString(); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if span.name != "GET /cards/***" {
		t.Errorf("the name is %q", span.name)
	}
}

// contextSpan is a span of a sampled trace.
type contextSpan struct {
	notedSpan
	of trace.SpanContext
}

func (s *contextSpan) SpanContext() trace.SpanContext { return s.of }

// The id of a trace is the client's text. It gets into no metric if it could hold a
// card number.
func TestExemplarHoldsNoCardNumber(t *testing.T) {
	for id, want := range map[string]bool{
		"4bf92f3577b34da6a3ce929d0e0e4736": true,
		"4111111111111111aaaaaaaaaaaaaaaa": false,
		"a4111111111111111aaaaaaaaaaaaaaa": false,
	} {
		traced, err := trace.TraceIDFromHex(id)
		if err != nil {
			t.Fatal(err)
		}
		span := &contextSpan{of: trace.NewSpanContext(trace.SpanContextConfig{TraceID: traced, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})}
		var s meter.Spans
		s.Begin(trace.ContextWithSpan(t.Context(), span))
		if got := s.Exemplar(); (got != nil) != want {
			t.Errorf("the exemplar of the trace %s is %v", id, got)
		}
	}
}
