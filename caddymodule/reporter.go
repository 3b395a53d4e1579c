package caddymodule

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A flood of junk must not become a flood of logs: of each reason, the first
// lines of every second are written, then one in many.
const (
	refusalsPerSecond = 20
	refusalsThen      = 1000
)

// A reporter has the logs and metrics in which the requests of one configuration are
// reported.
type reporter struct {
	log     *zap.Logger
	refused *zap.Logger // samples
	metrics *metrics
	docsURL string // option docs_url
}

func newReporter(log *zap.Logger, counters *metrics) reporter {
	return reporter{log: log, refused: refusalLogger(log), metrics: counters}
}

func refusalLogger(log *zap.Logger) *zap.Logger {
	return log.Named("refusals").WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, refusalsPerSecond, refusalsThen)
	}))
}

var unredactedOnce sync.Once

// warnUnredacted warns, once in the life of the process, that an access log is
// written without the format card.
func (t *reporter) warnUnredacted() {
	unredactedOnce.Do(func() {
		go t.log.Warn("an access log is written without `format card`: it shows key ids, signatures, nonces and query values; set `format card` in each log block that receives http.log.access or http.log.error")
	})
}
