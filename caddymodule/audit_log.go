package caddymodule

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/caddymodule/auditfile"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/logqueue"
	"github.com/card-gateway/card-gateway/store"
)

// auditLog writes the audit record and knows whether a line of it was lost.
//
// With the option audit, the record is a file, and the lines of the logger
// card_gateway.audit are copies that may be lost. Without it, these lines are the
// record: every line has the name of this run of the process and a number. The
// numbers of one run are 1, 2, 3 and so on, so a missing number is a lost line.
// zap reports a line that an output refuses at once. A queue counts the lines that
// it loses later. If an output takes a line and then loses it, the gateway does
// not notice.
type auditLog struct {
	log  *zap.Logger
	file *auditfile.File // nil: the logger alone
}

// auditCounts are the numbers of the lines of the audit log.
type auditCounts struct {
	lines   atomic.Uint64
	refused atomic.Uint64 // lines that an output refused at once

	mu       sync.Mutex
	reported atomic.Uint64 // lost lines that a later line has reported
}

func newAuditLog(log *zap.Logger) *auditLog {
	return &auditLog{log: log.WithOptions(zap.ErrorOutput(refusedLines{}))}
}

// auditEncoder writes the lines of the file, masked as those of the log.
var auditEncoder = cardlog.NewJSON(zapcore.EncoderConfig{
	TimeKey: "at", EncodeTime: zapcore.RFC3339NanoTimeEncoder, EncodeDuration: zapcore.StringDurationEncoder, SkipLineEnding: true,
})

// line writes a line.
func (a *auditLog) line(level zapcore.Level, message string, fields []zap.Field) {
	if a.file == nil {
		a.log.Log(level, message, append(fields, a.number()...)...)
		return
	}
	entry := zapcore.Entry{Level: level, Time: time.Now().UTC(), LoggerName: "card_gateway.audit"}
	if text, err := auditEncoder.EncodeEntry(entry, append(slices.Clip(fields), zap.String("run", logqueue.Run))); err == nil {
		a.file.Append(bytes.Clone(text.Bytes()))
		text.Free()
	}
	a.log.Log(level, message, fields...)
}

// settle waits until the lines so far are in the file, for a limited time.
func (a *auditLog) settle(ctx context.Context) {
	if a.file != nil {
		_ = a.file.Ready(ctx) // degraded reports the trouble
	}
}

// refusedLines is the error output of zap: each write is a line that an output
// has refused.
type refusedLines struct{}

func (refusedLines) Write(p []byte) (int, error) {
	process.audit.refused.Add(1)
	return len(p), nil
}

func (refusedLines) Sync() error { return nil }

// number returns the fields run and seq of the next line.
func (*auditLog) number() []zap.Field {
	return []zap.Field{zap.String("run", logqueue.Run), zap.Uint64("seq", process.audit.lines.Add(1))}
}

func auditLost() uint64 { return process.audit.refused.Load() + logqueue.AuditLost() }

// behind reports whether lines wait, or were lost and none was written since.
func (a *auditLog) behind() bool {
	if a.file != nil {
		return a.file.LinesWait()
	}
	return auditLost() != process.audit.reported.Load()
}

const auditPatience = time.Second

// check returns nil when the audit record takes lines, and otherwise a
// [store.ErrUnavailable].
func (a *auditLog) check(ctx context.Context) error {
	if a.file == nil {
		return a.checkLogger(ctx)
	}
	if err := a.file.Ready(ctx); err != nil {
		return fmt.Errorf("%w: the audit record cannot be written, so no key may be changed: %w", store.ErrUnavailable, err)
	}
	return nil
}

// checkLogger writes, after a loss, a line that reports how many were lost. If that
// line is lost too, it returns an error.
func (a *auditLog) checkLogger(ctx context.Context) error {
	if !a.behind() {
		return nil
	}
	process.audit.mu.Lock()
	defer process.audit.mu.Unlock()
	lost := auditLost()
	missing := lost - process.audit.reported.Load()
	if missing == 0 {
		return nil
	}
	a.log.Warn("lines of the audit log were lost", append([]zap.Field{zap.Uint64("lost", missing)}, a.number()...)...)
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	logqueue.Flush(ctx)
	if auditLost() != lost {
		return fmt.Errorf("%w: lines of the audit log cannot be written, so no key may be changed", store.ErrUnavailable)
	}
	process.audit.reported.Store(lost)
	return nil
}

// auditedBackend refuses to change keys while the audit log takes no lines. It
// still settles requests, which may lock keys without a line.
type auditedBackend struct {
	store.Backend
	audit *auditLog
}

// Local reports whether the backend answers from memory; see store.LocalBackend.
func (b *auditedBackend) Local() bool {
	local, ok := b.Backend.(store.LocalBackend)
	return ok && local.Local()
}

func (b *auditedBackend) Put(ctx context.Context, r *store.Record, opt store.PutOptions) (store.Durability, error) {
	if err := b.audit.check(ctx); err != nil {
		return store.Durability{}, err
	}
	return b.Backend.Put(ctx, r, opt)
}

func (b *auditedBackend) Delete(ctx context.Context, id, revision string) (store.Durability, error) {
	if err := b.audit.check(ctx); err != nil {
		return store.Durability{}, err
	}
	return b.Backend.Delete(ctx, id, revision)
}
