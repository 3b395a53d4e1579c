// Package request carries a request through the handlers of the gateway, and writes its
// answer.
//
// Begin with [Info], what the handlers know of a request and what is counted and logged
// of it at its end; [Carried] is the context that has it. [Writer] sets the headers of an
// answer when it is sent, [Refuse] gives a refusal its face, and [ClientAddress] is who
// has sent the request. A handler finds the app by [Join].
package request

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/assertion"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/node"
	"github.com/card-gateway/card-gateway/headers"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/share"
)

// Info is what the gateway knows of one request. card_auth makes it and
// puts it into the request's context; later handlers read it. It belongs to
// the goroutine that serves the request.
type Info struct {
	Reporter  *Reporter
	RequestID string
	Target    auth.Target
	Operation *auth.Operation
	Key       *auth.Key        // the judged key; nil until one was found
	Client    string           // address of the client, as Caddy chose it
	Address   netip.Addr       // the same; zero if it is not known
	Body      *held.Body       // the verified body; nil until it was read
	Answer    held.Reservation // for an answer that is held
	Copies    int64            // how often an answer is in memory while it is held; 0: it is not held
	Aside     http.Header      // headers of the client that only a card_forward may pass
	Upstream  meter.IssuerAnswer
	Asserting Asserting
	Spans     meter.Spans
	Own       *OwnRequest // nil unless card_auth accepted it and card_self answers it

	Refusal  *auth.Refusal // the last refusal; nil when accepted
	DryRun   *auth.Refusal // what card_auth would have refused, in dry run
	Overhead time.Duration // time spent in the gateway, without waits for client and issuer
	Skew     time.Duration // server clock minus X-Timestamp
	Closes   bool          // the connection ends with the answer
	Failures int           // consecutive failures of the key after this request
	Taken    Taken

	handedOn bool // to what is behind all handlers that refuse
}

// Taken is whether a request has spent its nonce.
type Taken uint8

// NotTaken is a request that was refused, and stays valid. With TakenUnknown the store has
// not said it, or a nonce means nothing because of a dry run.
const (
	NotTaken Taken = iota
	TakenOnce
	TakenUnknown
)

// An OwnRequest is what card_auth knows of an accepted request that the gateway
// answers itself.
type OwnRequest struct {
	*auth.Request
	Secret int               // version of the secret that signed it
	Limits []ratelimit.State // of the buckets that it was charged to
}

// RateLimitOptions are the options of card_rate_limit.
type RateLimitOptions struct {
	// Decide and report, but refuse nothing. Default: false.
	DryRun bool `json:"dry_run,omitempty"`
	// Also send the headers RateLimit and RateLimit-Policy of the IETF draft.
	// Default: false.
	IETFHeaders bool `json:"ietf_headers,omitempty"`
}

// Begin sets the fields that every request has. It returns the request with the
// info in its context and in its access log line, if the server writes one or is
// not known (nil).
func (i *Info) Begin(to *Reporter, r *http.Request, server *caddyhttp.Server) *http.Request {
	i.Reporter = to
	i.Spans.Begin(r.Context())
	i.RequestID = requestID(r.Header)
	i.Closes = ClosesAfter(r)
	if server != nil && server.Logs == nil {
		return With(r, i)
	}
	if extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Add(zap.Inline(i))
	}
	return With(r, i)
}

// ClosesAfter reports whether the connection must end with the answer. A request
// with both Transfer-Encoding and Content-Length may be an attempt to smuggle
// (RFC 9112, section 6.1), and net/http hides the second header; so each request
// with the first one ends its connection. So does each of HTTP/1.0, where net/http hides
// the first one too and takes the chunks for the next request.
func ClosesAfter(r *http.Request) bool {
	return r.ProtoMajor == 1 && (len(r.TransferEncoding) > 0 || r.ProtoMinor == 0)
}

// outcome returns the request's value of the metric label and log field
// "outcome".
func (i *Info) outcome() string {
	switch {
	case i.Refusal != nil:
		return i.Refusal.Reason.String()
	case i.DryRun != nil:
		return meter.WouldRefuse[i.DryRun.Reason]
	default:
		return auth.Accepted.String()
	}
}

// forwarded reports whether the issuer may have seen the refused request.
func (i *Info) forwarded() bool {
	return i.handedOn && !i.Upstream.Asked.IsZero() && !i.Refusal.Unsent
}

// MarshalLogObject adds the gateway's fields to an access log line. It runs
// only when the line is written.
func (i *Info) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("request_id", i.RequestID)
	enc.AddString("outcome", i.outcome())
	i.fields(enc.AddString)
	return nil
}

// HandOn calls the next handler with a request that no handler of ours before the
// terminal one refuses any more: that of card_translate, or of card_auth where nothing
// is translated. The span of the issuer's call begins, unless the gateway answers
// itself. If the answer will be held, the memory for a usual one is reserved before, so
// that nothing is executed and then refused.
func (i *Info) HandOn(next caddyhttp.Handler, w http.ResponseWriter, r *http.Request) error {
	if refusal := i.Answer.Ahead(min(aheadOfAnswer, i.Copies*i.maxAnswer())); refusal != nil {
		return refusal
	}
	i.handedOn = true
	if !i.Upstream.Asked.IsZero() {
		i.Spans.StartIssuer(r)
		if i.Operation != nil {
			i.Spans.Issuer.Set("card_gateway.operation", i.Operation.Name)
		}
	}
	return next.ServeHTTP(w, r)
}

// NoteStatus notes the final status of the issuer's answer.
func (i *Info) NoteStatus(status int) {
	i.Upstream.NoteStatus(status)
	if i.Upstream.Status > 0 {
		i.endIssuer()
	}
}

// endIssuer ends the span of the issuer's call with what it came to.
func (i *Info) endIssuer() {
	span := i.Spans.Issuer
	if span == nil || span.Ended {
		return
	}
	if class := i.Upstream.Class(i.Refusal); class != meter.ClassNone {
		span.Set("card_gateway.class", meter.UpstreamClasses[class])
	}
	if status := i.Upstream.Status; status > 0 {
		span.Answered(status)
	} else if i.Refusal != nil {
		span.Outcome(i.Refusal.Reason)
	}
	span.End()
}

// fields calls add for the operation and the caller, if they are known: logs and
// traces show them beside the request id.
func (i *Info) fields(add func(name, value string)) {
	if i.Operation != nil {
		add("operation", i.Operation.Name)
	}
	if i.Key != nil {
		add("key_id", i.Key.ID)
		add("tenant", i.Key.Tenant)
	}
}

// Caller returns whose shares the request uses.
func (i *Info) Caller() share.Caller { return held.Caller(i.Key, i.Address) }

// maxAnswer returns the most bytes of an answer to the request that are held.
func (i *Info) maxAnswer() int64 {
	if i.Operation != nil && i.Operation.MaxAnswer > 0 {
		return i.Operation.MaxAnswer
	}
	return MaxAnswer
}

// String returns only the request id, so that printing the info shows no more.
func (i *Info) String() string { return "request " + i.RequestID }

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

// Count counts the request after its answer. A request without an operation
// counts as other.
func (i *Info) Count(other *auth.Operation) {
	operation := i.Operation
	if operation == nil {
		operation = other
	}
	o := &i.Reporter.Metrics.Operations[operation.Index]
	switch {
	case i.Refusal != nil:
		o.Refused[i.Refusal.Reason]().Inc()
	case i.DryRun != nil:
		o.WouldRefuse[i.DryRun.Reason]().Inc()
	default:
		o.Refused[auth.Accepted]().Inc()
	}
	exemplar := i.Spans.Exemplar()
	o.Overhead().ObserveWithExemplar(i.Overhead.Seconds(), exemplar)
	i.endIssuer()
	i.logAccepted()
	o.Upstream.Observe(&i.Upstream, i.Refusal, exemplar)
}

// logAccepted writes a line for an accepted request, while an operator wants one
// for each.
func (i *Info) logAccepted() {
	if i.Refusal == nil && i.DryRun == nil && node.LogsEachRequest() {
		fields := zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
			i.fields(enc.AddString)
			return nil
		})
		i.Reporter.Log.Named("requests").Info("request accepted", zap.String("request_id", i.RequestID),
			zap.String("client_ip", i.Client), zap.Duration("overhead", i.Overhead), zap.Inline(fields))
	}
}

// LogRefusal counts a refusal for its key, and writes one line that explains it: the
// reason and the facts, never a secret, a signature, a nonce or a body.
func (i *Info) LogRefusal(refusal *auth.Refusal) {
	if i == nil {
		return
	}
	if i.Key != nil {
		node.Process.Offenders.Add(time.Now(), i.Key.ID, i.Key.Tenant, refusal.Reason.String())
	}
	level := zapcore.InfoLevel
	if refusal.Reason.Status() >= http.StatusInternalServerError {
		level = zapcore.ErrorLevel
	}
	log := i.Reporter.Refused
	if node.LogsEachRequest() {
		log = i.Reporter.Log.Named("refusals") // not sampled
	}
	if line := log.Check(level, "request refused: "+refusal.Reason.String()); line != nil {
		line.Write(zap.String("reason", refusal.Reason.String()), zap.Inline(refusalFacts{i, refusal}))
	}
}

// refusalFacts are the fields of a refusal's log line.
type refusalFacts struct {
	info    *Info
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
		enc.AddInt("failures", info.Failures)
	}
	if info.Skew != 0 {
		enc.AddFloat64("skew_seconds", info.Skew.Seconds())
	}
	if refusal.Log != "" {
		enc.AddString("detail", refusal.Log)
	}
	if refusal.Cause != nil {
		enc.AddString("error", causeText(refusal))
	}
	if info.DryRun == refusal {
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

// TraceOutcome adds the outcome of the request to its span, and masks card
// numbers in the other attributes. It costs nothing without a span.
func TraceOutcome(info *Info) {
	span := info.Spans.Request
	if span == nil {
		return
	}
	span.SetAttributes(
		attribute.String("card_gateway.outcome", info.outcome()),
		attribute.String("card_gateway.request_id", info.RequestID),
		attribute.Float64("card_gateway.overhead_seconds", info.Overhead.Seconds()),
	)
	info.fields(func(name, value string) { span.SetAttributes(attribute.String("card_gateway."+name, value)) })
	meter.MaskSpan(span)
}

// Asserting is what the assertion of one request needs, once the request is
// accepted. Without a signer there is none.
type Asserting struct {
	Signer *assertion.Signer
	Claims assertion.Claims // Digest is that of the body as the handlers of the gateway have left it
}

// Sign returns the assertion of the request with this method, target and body.
func (a *Asserting) Sign(method, target string, digest [sha256.Size]byte) string {
	a.Claims.Method, a.Claims.Target, a.Claims.Digest = method, target, digest
	return a.Signer.Sign(&a.Claims, time.Now())
}

// Put sets the assertion in the headers of a request that reverse_proxy forwards
// with the method, target and body that it has now.
func (a *Asserting) Put(r *http.Request) {
	r.Header[headers.Assertion] = []string{a.Sign(r.Method, r.URL.RequestURI(), a.Claims.Digest)}
}

// BodyChanged notes another body. An assertion that is in the headers is made
// anew.
func (a *Asserting) BodyChanged(r *http.Request, body []byte) {
	if a.Signer == nil {
		return
	}
	a.Claims.Digest = sha256.Sum256(body)
	if _, is := r.Header[headers.Assertion]; is {
		a.Put(r)
	}
}
