package ops

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A printedSpan is a span as OpenTelemetry's exporter `console` prints it.
type printedSpan struct {
	Name                string
	SpanContext, Parent struct{ TraceID, SpanID string }
	SpanKind            int // 1 internal, 3 client
	Attributes          []struct {
		Key   string
		Value struct{ Value any }
	}
	Status struct{ Code, Description string }
}

// of returns an attribute; "<nil>" without one.
func (s *printedSpan) of(key string) string {
	var value any
	for _, a := range s.Attributes {
		if a.Key == key {
			value = a.Value.Value
		}
	}
	return fmt.Sprint(value)
}

// startPrinting starts a gateway whose spans are printed, with a card_translate.
func startPrinting(t testing.TB, s harness.Site, env ...string) *harness.Gateway {
	t.Helper()
	s.Extra = tracing
	s.Routes = "card_rate_limit\ncard_auth\ncard_translate {\nupstream snake_case\n}\n" + s.ToIssuer()
	g := harness.NewGateway(t, s)
	g.Env = append(env, "OTEL_TRACES_EXPORTER=console", "OTEL_BSP_SCHEDULE_DELAY=20")
	g.Start()
	return g
}

func printedSpans(t testing.TB, g *harness.Gateway) (all []*printedSpan) {
	t.Helper()
	for line := range strings.Lines(g.ReadFile("stderr")) {
		if !strings.HasPrefix(line, `{"Name":`) || !strings.HasSuffix(line, "\n") {
			continue
		}
		s := new(printedSpan)
		if err := json.Unmarshal([]byte(line), s); err != nil {
			t.Fatalf("the span %s: %v", line, err)
		}
		all = append(all, s)
	}
	return all
}

// spansOf waits for the span of a request, and returns those below it by name, and
// the direction of a translation.
func spansOf(t testing.TB, g *harness.Gateway, requestID string) (below map[string]*printedSpan) {
	t.Helper()
	harness.Eventually(t, "the span of "+requestID+" is printed", func() bool {
		all := printedSpans(t, g)
		at := slices.IndexFunc(all, func(s *printedSpan) bool { return s.of("card_gateway.request_id") == requestID })
		if at < 0 {
			return false
		}
		// Those below it ended before, so they are printed before.
		below = make(map[string]*printedSpan)
		for _, s := range all[:at] {
			if s.SpanContext.TraceID != all[at].SpanContext.TraceID {
				continue
			}
			if s.Parent.SpanID != all[at].SpanContext.SpanID {
				t.Errorf("the parent of %s is %s, want the request's span %s", s.Name, s.Parent.SpanID, all[at].SpanContext.SpanID)
			}
			name := strings.TrimSuffix(s.Name+" "+s.of("card_gateway.direction"), " <nil>")
			if below[name] != nil {
				t.Errorf("there are two spans %s", name)
			}
			below[name] = s
		}
		return true
	})
	return below
}

// wantSpans checks the names of the spans of a request.
func wantSpans(t testing.TB, got map[string]*printedSpan, want ...string) {
	t.Helper()
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(slices.Values(want))) {
		t.Fatalf("the spans are %q, want %q", names, want)
	}
}

// want checks attributes, given as `key=value`, the kind and whether it is an error.
func (s *printedSpan) want(t testing.TB, kind int, failed string, attributes ...string) {
	t.Helper()
	for _, a := range attributes {
		if key, value, _ := strings.Cut(a, "="); s.of(key) != value {
			t.Errorf("%s: %s is %s, want %s", s.Name, key, s.of(key), value)
		}
	}
	if s.SpanKind != kind {
		t.Errorf("%s is of the kind %d, want %d", s.Name, s.SpanKind, kind)
	}
	if (s.Status.Code == "Error") != (failed != "") || s.Status.Description != failed || failed != "" && s.of("error.type") != failed {
		t.Errorf("%s has the status %v and error.type %s, want the error %q", s.Name, s.Status, s.of("error.type"), failed)
	}
}

const (
	settleSpan    = "card_gateway.settle"
	issuerSpan    = "card_gateway.issuer"
	requestSpan   = "card_gateway.translate request"
	answerSpan    = "card_gateway.translate answer"
	internal      = 1
	client        = 3
	issuersAnswer = `{"data":{"id":"u1","type":"individual","first_name":"Zoë","email":"zoe.ng@example.com",` +
		`"date_of_birth":"1990-04-12T00:00:00Z"},"request_id":"r1","timestamp":"2026-01-01T00:00:00Z"}`
)

// TestStepsHaveSpans follows requests of every kind.
func TestStepsHaveSpans(t *testing.T) { harness.EachTerminal(t, testStepsHaveSpans) }

func testStepsHaveSpans(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	u.Does(func(r *harness.Received) harness.Reply {
		switch {
		case strings.Contains(r.Line, "/balance"):
			return harness.Reply{} // closes the connection
		case strings.Contains(r.Line, "/transactions"):
			return harness.Answer(503, `{"success":false}`, "Content-Type: application/json")
		case strings.Contains(r.Line, "/Customers"):
			return harness.Answer(201, issuersAnswer, "Content-Type: application/json")
		default:
			return harness.Answer(404, `{"success":false}`, "Content-Type: application/json")
		}
	})
	g := startPrinting(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	send := func(id string, r *harness.Request) map[string]*printedSpan {
		g.Send(t, r.Set("X-Request-Id", id))
		return spansOf(t, g, id)
	}
	customer := func(body string) *harness.Request {
		return key.Request(http.MethodPost, "/api/v1/Customers", body).Set("Content-Type", "application/json")
	}

	got := send("translated", customer(watchedCustomer))
	wantSpans(t, got, settleSpan, requestSpan, issuerSpan, answerSpan)
	got[settleSpan].want(t, internal, "", "card_gateway.outcome=accepted", "card_gateway.store=file", "db.system.name=<nil>")
	got[requestSpan].want(t, internal, "", "card_gateway.operation=create_customer", "card_gateway.variant=B", "card_gateway.result=ok")
	got[answerSpan].want(t, internal, "", "card_gateway.operation=create_customer", "card_gateway.variant=B", "card_gateway.result=ok")
	got[issuerSpan].want(t, client, "", "card_gateway.operation=create_customer", "card_gateway.class=2xx", "http.response.status_code=201", "http.request.method=POST")
	if parent := strings.Split(u.One(t).Value("Traceparent"), "-"); len(parent) != 4 || parent[1] != got[issuerSpan].SpanContext.TraceID || parent[2] != got[issuerSpan].SpanContext.SpanID {
		t.Errorf("the issuer was sent the traceparent %q, want the span %v", parent, got[issuerSpan].SpanContext)
	}
	if terminal == harness.CardForward {
		got[issuerSpan].want(t, client, "", "card_gateway.issuer="+u.Addr)
	}

	got = send("missing", key.Get())
	wantSpans(t, got, settleSpan, issuerSpan)
	got[issuerSpan].want(t, client, "", "card_gateway.operation=get_card", "card_gateway.class=4xx", "http.response.status_code=404")
	got = send("failing", key.Request(http.MethodGet, "/api/v1/transactions", ""))
	got[issuerSpan].want(t, client, "503", "card_gateway.operation=list_transactions", "card_gateway.class=5xx")
	got = send("broken", key.Request(http.MethodGet, "/api/v1/cards/c1/balance", ""))
	wantSpans(t, got, settleSpan, issuerSpan)
	got[issuerSpan].want(t, client, "upstream_error", "card_gateway.class=error", "card_gateway.outcome=upstream_error", "http.response.status_code=<nil>")

	got = send("forged", key.Get().Forge())
	wantSpans(t, got, settleSpan)
	got[settleSpan].want(t, internal, "", "card_gateway.outcome=signature_mismatch")
	got = send("invalid", customer(`{"firstName":"Zoë"}`))
	wantSpans(t, got, settleSpan, requestSpan)
	got[requestSpan].want(t, internal, "", "card_gateway.result=invalid")
	wantSpans(t, send("shape", key.Get().Add("X-Card-Variant", "D")), settleSpan)
	wantSpans(t, send("unknown", harness.Credentials{ID: "ck_live_" + strings.Repeat("a", 32), Secret: key.Secret}.Get()))
}

// TestUnsampledTraceHasNoSpans sends a request of a trace that is not sampled. The
// issuer still gets the trace's id.
func TestUnsampledTraceHasNoSpans(t *testing.T) { harness.EachTerminal(t, testUnsampled) }

func testUnsampled(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := startPrinting(t, harness.Site{Upstream: u.Addr, Terminal: terminal})
	key := g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, key.Get().Add("traceparent", "00-"+unsampledTrace+"-00f067aa0ba902b7-00")))
	if got := u.One(t).Value("Traceparent"); !strings.HasPrefix(got, "00-"+unsampledTrace+"-") || !strings.HasSuffix(got, "-00") {
		t.Errorf("the issuer was sent the traceparent %q, want one of the client's trace, not sampled", got)
	}
	harness.WantAccepted(t, g.Send(t, key.Get().Set("X-Request-Id", "sampled")))
	spansOf(t, g, "sampled")
	for _, s := range printedSpans(t, g) {
		if s.SpanContext.TraceID == unsampledTrace {
			t.Errorf("the span %s of a trace that is not sampled is printed", s.Name)
		}
	}
}

// TestOtherPropagators checks the header of B3, in which the issuer's spans hang
// below that of the gateway's call too.
func TestOtherPropagators(t *testing.T) { harness.EachTerminal(t, testOtherPropagators) }

func testOtherPropagators(t *testing.T, terminal string) {
	u := harness.StartUpstream(t)
	g := startPrinting(t, harness.Site{Upstream: u.Addr, Terminal: terminal}, "OTEL_PROPAGATORS=b3,b3multi,jaeger")
	harness.WantAccepted(t, g.Send(t, g.NewKey(nil).Get().Set("X-Request-Id", "other")))
	span, sent := spansOf(t, g, "other")[issuerSpan], u.One(t)
	for name, want := range map[string]string{
		"B3":            span.SpanContext.TraceID + "-" + span.SpanContext.SpanID + "-1",
		"X-B3-Spanid":   span.SpanContext.SpanID,
		"Uber-Trace-Id": span.SpanContext.TraceID + ":" + span.SpanContext.SpanID + ":0:1",
		"Traceparent":   "",
	} {
		if got := sent.Value(name); got != want {
			t.Errorf("the issuer was sent %s: %s, want %s", name, got, want)
		}
	}
}

// TestSettleOnRedisHasASpan checks the span of a store that is another system, also
// while that is out of reach.
func TestSettleOnRedisHasASpan(t *testing.T) {
	t.Parallel()
	u, r := harness.StartUpstream(t), harness.StartRedis(t)
	g := startPrinting(t, harness.Site{Upstream: u.Addr, Store: r.Patient()})
	key := g.NewKey(nil)
	harness.WantAccepted(t, g.Send(t, key.Get().Set("X-Request-Id", "settled")))
	spansOf(t, g, "settled")[settleSpan].want(t, client, "", "card_gateway.outcome=accepted", "card_gateway.store=redis", "db.system.name=redis")
	r.Kill()
	g.Send(t, key.Get().Set("X-Request-Id", "down"))
	got := spansOf(t, g, "down")
	wantSpans(t, got, settleSpan)
	got[settleSpan].want(t, client, "store_unavailable", "card_gateway.outcome=store_unavailable", "card_gateway.store=redis")
}
