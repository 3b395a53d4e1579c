package caddymodule

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/headers"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// requestInfo is what the gateway knows of one request. card_auth makes it and
// puts it into the request's context; later handlers read it. It belongs to
// the goroutine that serves the request.
type requestInfo struct {
	reporter     *reporter
	answerMemory *held.Memory // for answers that are held
	RequestID    string
	Target       auth.Target
	Operation    *auth.Operation
	Key          *auth.Key   // the judged key; nil until one was found
	Client       string      // address of the client, as Caddy chose it
	address      netip.Addr  // the same; zero if it is not known
	body         *held.Body  // the verified body; nil until it was read
	aside        http.Header // headers of the client that only a card_forward may pass
	upstream     upstreamAnswer
	asserting    asserting
	spans        spans
	own          *ownRequest // nil unless card_auth accepted it and card_self answers it

	refusal  *auth.Refusal // the last refusal; nil when accepted
	dryRun   *auth.Refusal // what card_auth would have refused, in dry run
	overhead time.Duration // time spent in the gateway, without waits for client and issuer
	skew     time.Duration // server clock minus X-Timestamp
	closes   bool          // the connection ends with the answer
	failures int           // consecutive failures of the key after this request
}

// An ownRequest is what card_auth knows of an accepted request that the gateway
// answers itself.
type ownRequest struct {
	*auth.Request
	secret int               // version of the secret that signed it
	limits []ratelimit.State // of the buckets that it was charged to
}

type contextKey int

const gatewayKey contextKey = 0

// A carried is what the gateway's handlers put into the context of a request.
// There is one for card_rate_limit and the card_auth behind it, because each
// change of the context copies the request.
type carried struct {
	info   *requestInfo      // of card_auth; nil until it runs
	limits *RateLimitOptions // how limits apply; nil: not at all
	judged bool              // card_auth has read limits
}

// carriedBy returns what the request carries, or nil.
func carriedBy(ctx context.Context) *carried {
	c, _ := ctx.Value(gatewayKey).(*carried)
	return c
}

// with returns the request with c in its context.
func (c *carried) with(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), gatewayKey, c))
}

// infoFrom returns what card_auth knows of the request, or nil when card_auth
// did not run before.
func infoFrom(ctx context.Context) *requestInfo {
	if c := carriedBy(ctx); c != nil {
		return c.info
	}
	return nil
}

// begin sets the fields that every request has. It returns the request with the
// info in its context and in its access log line, if the server writes one or is
// not known (nil).
func (i *requestInfo) begin(to *reporter, r *http.Request, server *caddyhttp.Server) *http.Request {
	i.reporter = to
	i.spans.begin(r.Context())
	i.RequestID = requestID(r.Header)
	i.closes = closesAfter(r)
	if server != nil && server.Logs == nil {
		return withInfo(r, i)
	}
	if extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Add(zap.Inline(i))
	}
	return withInfo(r, i)
}

// closesAfter reports whether the connection must end with the answer. A request
// with both Transfer-Encoding and Content-Length may be an attempt to smuggle
// (RFC 9112, section 6.1), and net/http hides the second header; so each request
// with the first one ends its connection.
func closesAfter(r *http.Request) bool { return r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 }

// withInfo returns the request with the info in its context.
func withInfo(r *http.Request, info *requestInfo) *http.Request {
	c := carriedBy(r.Context())
	if c == nil || c.info != nil { // of another card_auth
		return (&carried{info: info}).with(r)
	}
	c.info = info
	return r
}

// outcome returns the request's value of the metric label and log field
// "outcome".
func (i *requestInfo) outcome() string {
	switch {
	case i.refusal != nil:
		return i.refusal.Reason.String()
	case i.dryRun != nil:
		return wouldRefuse[i.dryRun.Reason]
	default:
		return auth.Accepted.String()
	}
}

// notForwarded reports whether an answer with the status is a 503 of the gateway
// itself, and the issuer has seen nothing of the request.
func (i *requestInfo) notForwarded(status int) bool {
	return status == http.StatusServiceUnavailable && i.refusal != nil && i.upstream.status == 0
}

// MarshalLogObject adds the gateway's fields to an access log line. It runs
// only when the line is written.
func (i *requestInfo) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	if !cardlog.Redacts(enc) {
		i.reporter.warnUnredacted()
	}
	enc.AddString("request_id", i.RequestID)
	enc.AddString("outcome", i.outcome())
	i.fields(enc.AddString)
	return nil
}

// handOn calls the next handler with a request that no handler of ours before the
// terminal one refuses any more: that of card_translate, or of card_auth where nothing
// is translated. The span of the issuer's call begins, unless the gateway answers
// itself.
func (i *requestInfo) handOn(next caddyhttp.Handler, w http.ResponseWriter, r *http.Request) error {
	if !i.upstream.asked.IsZero() {
		i.spans.startIssuer(r)
		if i.Operation != nil {
			i.spans.issuer.set("card_gateway.operation", i.Operation.Name)
		}
	}
	return next.ServeHTTP(w, r)
}

// noteStatus notes the final status of the issuer's answer.
func (i *requestInfo) noteStatus(status int) {
	i.upstream.noteStatus(status)
	if i.upstream.status > 0 {
		i.endIssuer()
	}
}

// endIssuer ends the span of the issuer's call with what it came to.
func (i *requestInfo) endIssuer() {
	span := i.spans.issuer
	if span == nil || span.ended {
		return
	}
	if class := i.upstream.class(i.refusal); class != classNone {
		span.set("card_gateway.class", upstreamClasses[class])
	}
	if status := i.upstream.status; status > 0 {
		span.answered(status)
	} else if i.refusal != nil {
		span.outcome(i.refusal.Reason)
	}
	span.end()
}

// fields calls add for the operation and the caller, if they are known: logs and
// traces show them beside the request id.
func (i *requestInfo) fields(add func(name, value string)) {
	if i.Operation != nil {
		add("operation", i.Operation.Name)
	}
	if i.Key != nil {
		add("key_id", i.Key.ID)
		add("tenant", i.Key.Tenant)
	}
}

// reserve returns an empty reservation of the request in the memory.
func (i *requestInfo) reserve(m *held.Memory) held.Reservation {
	return m.Reserve(i.keyID(), i.address)
}

// keyID returns the id of the judged key, or "" before a key was found.
func (i *requestInfo) keyID() string {
	if i.Key == nil {
		return ""
	}
	return i.Key.ID
}

// String returns only the request id, so that printing the info shows no more.
func (i *requestInfo) String() string { return "request " + i.RequestID }

// requestID returns the client's request id if it is valid, else a new one.
func requestID(h http.Header) string {
	if values := h[headers.RequestID]; len(values) == 1 && validRequestID(values[0]) {
		return values[0]
	}
	return newRequestID(rand.Text)
}

// requestIDChars are the characters of a request id that is kept.
const requestIDChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// validRequestID reports whether a client's request id is kept: 1 to 64 letters,
// digits, "-" or "_" that cannot contain a card number. The id is logged and
// sent to the upstream.
func validRequestID(id string) bool {
	return 1 <= len(id) && len(id) <= 64 && strings.Trim(id, requestIDChars) == "" && !cardlog.HidesCardNumber(id)
}

// newRequestID returns a new request id. The random texts are those of rand.Text: 26
// letters and digits from 2 to 7, that is, 130 bits. A text with 12 digits or more is
// not used, because it could look like a card number.
func newRequestID(random func() string) string {
	for {
		id, digits := random(), 0
		for i := range len(id) {
			if id[i] <= '9' {
				digits++
			}
		}
		if digits < 12 {
			return id
		}
	}
}

// count counts the request after its answer. A request without an operation
// counts as other.
func (i *requestInfo) count(other *auth.Operation) {
	operation := i.Operation
	if operation == nil {
		operation = other
	}
	o := &i.reporter.metrics.operations[operation.Index]
	switch {
	case i.refusal != nil:
		o.refused[i.refusal.Reason].Inc()
	case i.dryRun != nil:
		o.wouldRefuse[i.dryRun.Reason].Inc()
	default:
		o.accepted.Inc()
	}
	exemplar := i.spans.exemplar()
	o.overhead.ObserveWithExemplar(i.overhead.Seconds(), exemplar)
	i.endIssuer()
	i.logAccepted()
	o.upstream.observe(&i.upstream, i.refusal, exemplar)
}

// logRefusal counts a refusal for its key and writes one line that explains a refusal: the reason and the facts,
// never a secret, a signature, a nonce or a body.
func (i *requestInfo) logRefusal(refusal *auth.Refusal) {
	if i == nil {
		return
	}
	if i.Key != nil {
		process.offenders.Add(time.Now(), i.Key.ID, i.Key.Tenant, refusal.Reason.String())
	}
	level := zapcore.InfoLevel
	if refusal.Reason.Status() >= http.StatusInternalServerError {
		level = zapcore.ErrorLevel
	}
	log := i.reporter.refused
	if logsEachRequest() {
		log = i.reporter.log.Named("refusals") // not sampled
	}
	if line := log.Check(level, "request refused: "+refusal.Reason.String()); line != nil {
		line.Write(zap.String("reason", refusal.Reason.String()), zap.Inline(refusalFacts{i, refusal}))
	}
}

// refusalFacts are the fields of a refusal's log line.
type refusalFacts struct {
	info    *requestInfo
	refusal *auth.Refusal
}

// MarshalLogObject is part of zapcore.ObjectMarshaler.
func (f refusalFacts) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	info, refusal := f.info, f.refusal
	enc.AddString("request_id", info.RequestID)
	if info.Client != "" {
		enc.AddString("client_ip", info.Client)
	}
	info.fields(enc.AddString)
	if info.Key != nil {
		enc.AddInt("failures", info.failures)
	}
	if info.skew != 0 {
		enc.AddFloat64("skew_seconds", info.skew.Seconds())
	}
	if refusal.Log != "" {
		enc.AddString("detail", refusal.Log)
	}
	if refusal.Cause != nil {
		enc.AddString("error", causeText(refusal))
	}
	if info.dryRun == refusal {
		enc.AddBool("dry_run", true)
	}
	return nil
}

// causeText returns the text for the log of the error behind a refusal. Errors of
// the store are logged in full. Every other error can quote a client or the
// upstream, so only its kind is logged.
func causeText(refusal *auth.Refusal) string {
	if refusal.Reason == auth.StoreUnavailable || refusal.Reason == auth.OverBudget {
		return refusal.Cause.Error()
	}
	return cardlog.Failure(refusal.Cause)
}

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
