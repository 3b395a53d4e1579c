package request

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/held"
)

// Unjudged answers requests that no card_auth has judged. It counts them under
// the operation other.
type Unjudged struct {
	reporter *Reporter
	other    *auth.Operation
}

// NewUnjudged returns what reports to the reporter. The operation is that of requests
// that no operation names.
func NewUnjudged(to *Reporter, other *auth.Operation) Unjudged { return Unjudged{to, other} }

// Refuse answers with a refusal.
func (u *Unjudged) Refuse(w http.ResponseWriter, r *http.Request, refusal *auth.Refusal) error {
	held.DiscardRest(w, r)
	start, info := time.Now(), new(Info)
	r = info.Begin(u.reporter, r, nil)
	info.Client, _ = ClientAddress(r)
	err := Refuse(NewWriter(w, info), r, refusal)
	info.Overhead = time.Since(start)
	info.Count(u.other)
	TraceOutcome(info)
	return err
}

// Misplaced answers for a handler that needs a card_auth before it.
func (u *Unjudged) Misplaced(w http.ResponseWriter, r *http.Request, handler string) error {
	u.reporter.Log.Error(handler + " runs where card_auth has not run before; put card_auth in front of it")
	return u.Refuse(w, r, auth.Refuse(auth.InternalError, handler+" without card_auth"))
}

// An App is the app card_gateway, as its handlers find it.
type App interface {
	// Join notes a handler with its options, as they were given, for the audit
	// record. The error is for routes around the handler that cannot be meant.
	Join(handler string, options any, server *caddyhttp.Server) error
	// Unjudged returns what answers requests that no card_auth has judged.
	Unjudged() Unjudged
}

var errNoApp = errors.New("there is no global option card_gateway; it says where the keys are and what is allowed")

// Join returns the app that a handler belongs to, after the handler has joined it.
func Join(ctx caddy.Context, handler string, options any) (App, error) {
	module, err := ctx.AppIfConfigured("card_gateway")
	switch {
	case errors.Is(err, caddy.ErrNotConfigured):
		return nil, fmt.Errorf("%s: %w", handler, errNoApp)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", handler, err)
	}
	found, ok := module.(App)
	if !ok {
		return nil, fmt.Errorf("%s: the app card_gateway is a %T", handler, module)
	}
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return found, found.Join(handler, options, server)
}

// A flood of junk must not become a flood of logs: of each reason, the first
// lines of every second are written, then one in many.
const (
	RefusalsPerSecond = 20
	RefusalsThen      = 1000
)

// A Reporter has the logs and metrics in which the requests of one configuration are
// reported.
type Reporter struct {
	Log     *zap.Logger
	Refused *zap.Logger // samples
	Metrics *meter.Metrics
	DocsURL string // option docs_url
}

// NewReporter returns a reporter without DocsURL. The counters may be nil where nothing
// is counted.
func NewReporter(log *zap.Logger, counters *meter.Metrics) Reporter {
	return Reporter{Log: log, Refused: Sampled(log.Named("refusals"), time.Second, RefusalsPerSecond, RefusalsThen), Metrics: counters}
}

// Sampled returns the log shortened: of each message it writes the first lines of every
// period, then one in thereafter; none for 0.
func Sampled(log *zap.Logger, period time.Duration, first, thereafter int) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, period, first, thereafter)
	}))
}
