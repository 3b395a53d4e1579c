package request

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/caddymodule/meter"
)

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
	return Reporter{Log: log, Refused: refusalLogger(log), Metrics: counters}
}

func refusalLogger(log *zap.Logger) *zap.Logger {
	return log.Named("refusals").WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, RefusalsPerSecond, RefusalsThen)
	}))
}

var unredactedOnce sync.Once

// warnUnredacted warns, once in the life of the process, that an access log is
// written without the format card.
func (t *Reporter) warnUnredacted() {
	unredactedOnce.Do(func() {
		go t.Log.Warn("an access log is written without `format card`: it shows key ids, signatures, nonces and query values; set `format card` in each log block that receives http.log.access or http.log.error")
	})
}
