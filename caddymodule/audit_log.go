package caddymodule

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/logqueue"
	"github.com/card-gateway/card-gateway/store"
)

// auditLog writes the audit log and knows whether a line of it was lost.
//
// Every line has the name of this run of the process and a number. The numbers
// of one run are 1, 2, 3 and so on: one that is missing was lost. zap reports
// what an output refuses at once. What a queue loses later the queue counts.
// That an output has taken a line and loses it then nobody can see.
type auditLog struct{ log *zap.Logger }

// What is known of the audit log of this process; it outlives configurations.
var audited struct {
	lines   atomic.Uint64
	refused atomic.Uint64 // lines that an output refused at once

	mu   sync.Mutex
	told atomic.Uint64 // of the lost lines, how many a later line has told of
}

func newAuditLog(log *zap.Logger) *auditLog {
	return &auditLog{log.WithOptions(zap.ErrorOutput(refusedLines{}))}
}

// refusedLines is where zap writes that an output has refused a line.
type refusedLines struct{}

func (refusedLines) Write(p []byte) (int, error) {
	audited.refused.Add(1)
	return len(p), nil
}

func (refusedLines) Sync() error { return nil }

// number returns the fields by which a lost line is seen.
func (*auditLog) number() []zap.Field {
	return []zap.Field{zap.String("run", logqueue.Run), zap.Uint64("seq", audited.lines.Add(1))}
}

func auditLost() uint64 { return audited.refused.Load() + logqueue.AuditLost() }

// behind reports whether lines were lost and none was written since.
func (*auditLog) behind() bool { return auditLost() != audited.told.Load() }

const auditPatience = time.Second

// check returns nil when the audit log takes lines. After a loss it first
// writes a line that tells how many were lost, and returns a
// [store.ErrUnavailable] when that is lost as well.
func (a *auditLog) check(ctx context.Context) error {
	if !a.behind() {
		return nil
	}
	audited.mu.Lock()
	defer audited.mu.Unlock()
	lost := auditLost()
	missing := lost - audited.told.Load()
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
	audited.told.Store(lost)
	return nil
}

// auditedBackend refuses to change keys while the audit log takes no lines. It
// settles all the same: requests may lock keys without a line.
type auditedBackend struct {
	store.Backend
	audit *auditLog
}

// Local says whether the backend answers from memory; see store.LocalBackend.
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
