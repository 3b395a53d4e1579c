// Package audit writes the audit record: every change of a key, every attempt at one,
// each lock, and each load of a configuration of Caddy. It is of use to the app alone.
//
// Begin with [Log], which says where the record is kept and how a lost line is noticed.
// Package auditfile has the chain of lines in a file.
package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/auditfile"
	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/logqueue"
	"github.com/card-gateway/card-gateway/caddymodule/peek"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

// Write writes one line of the audit record, for a change of a key or an attempt
// at one: actor, action, key, the old and the new value of each changed field, and
// the result. A Change holds no secret.
func (a *Log) Write(c keys.Change) {
	level, result := zapcore.InfoLevel, "ok"
	fields := []zap.Field{zap.String("actor", c.Actor)}
	if c.Claimed != "" {
		fields = append(fields, zap.String("claimed", c.Claimed))
	}
	fields = append(fields, zap.String("action", c.Action), zap.String("key_id", shortened(c.KeyID)), zap.String("tenant", shortened(c.Tenant)))
	if c.Err != nil {
		level, result = zapcore.WarnLevel, "failed"
		if status := adminapi.StatusOf(c.Err); c.Refused() || status < http.StatusInternalServerError {
			result = "refused"
			fields = append(fields, zap.Int("status", status))
		}
		fields = append(fields, zap.String("error", c.Err.Error()))
	}
	fields = append(fields, zap.String("result", result))
	if c.Revision != "" {
		fields = append(fields, zap.String("revision", c.Revision))
	}
	if c.Replicated != nil {
		fields = append(fields, zap.Bool("replicated", *c.Replicated))
	}
	if len(c.Fields) > 0 {
		fields = append(fields, zap.Object("changes", fieldChanges(c.Fields)))
	}
	a.line(level, "key "+c.Action, fields)
}

// maxAudited is the longest text that a caller has chosen in a line, in bytes.
const maxAudited = 128

func shortened(text string) string {
	if len(text) <= maxAudited {
		return text
	}
	return text[:maxAudited] + "…"
}

// Explained writes that the answer to a request with a live key said what was
// wrong with it.
func (a *Log) Explained(key *auth.Key, requestID string) {
	a.line(zapcore.InfoLevel, "key explain", []zap.Field{
		zap.String("actor", keys.GatewayActor), zap.String("action", "explain"), zap.String("key_id", key.ID),
		zap.String("tenant", key.Tenant), zap.String("result", "ok"), zap.String("request_id", requestID),
	})
}

// fieldChanges writes {"scopes":{"old":[…],"new":[…]},…} into a log line.
type fieldChanges []keys.FieldChange

func (f fieldChanges) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	for _, c := range f {
		if err := enc.AddObject(c.Field, fieldChange(c)); err != nil {
			return err
		}
	}
	return nil
}

type fieldChange keys.FieldChange

func (c fieldChange) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	if err := addValue(enc, "old", c.Old); err != nil {
		return err
	}
	return addValue(enc, "new", c.New)
}

func addValue(enc zapcore.ObjectEncoder, name string, value json.RawMessage) error {
	return enc.AddReflected(name, value) // a nil RawMessage is null
}

// Log writes the audit record and knows whether a line of it was lost.
//
// With the option audit, the record is a file, and the lines of the logger
// card_gateway.audit are copies that may be lost. Without it, these lines are the
// record: every line has the name of this run of the process and a number. The
// numbers of one run are 1, 2, 3 and so on, so a missing number is a lost line.
// zap reports a line that an output refuses at once. A queue counts the lines that
// it loses later. If an output takes a line and then loses it, the gateway does
// not notice.
type Log struct {
	log  *zap.Logger
	File *auditfile.File // nil: the logger alone
}

// counts are the numbers of the lines that this process has written to the log.
var counts struct {
	lines   atomic.Uint64
	refused atomic.Uint64 // lines that an output refused at once

	mu       sync.Mutex
	reported atomic.Uint64 // lost lines that a later line has reported
}

// LogDropped counts the lines that were lost.
var LogDropped = prometheus.NewCounterFunc(prometheus.CounterOpts{
	Name: "card_gateway_log_dropped_total",
	Help: "Log lines that were lost: the queue of card_queue was full, or its output or that of the audit log failed.",
}, func() float64 { return float64(logqueue.Dropped() + counts.refused.Load()) })

// NewLog returns a record in the lines of the logger.
func NewLog(log *zap.Logger) *Log {
	return &Log{log: log.WithOptions(zap.ErrorOutput(refusedLines{}))}
}

// auditEncoder writes the lines of the file, masked as those of the log.
var auditEncoder = cardlog.NewJSON(zapcore.EncoderConfig{
	TimeKey: "at", EncodeTime: zapcore.RFC3339NanoTimeEncoder, EncodeDuration: zapcore.StringDurationEncoder, SkipLineEnding: true,
})

// line writes a line.
func (a *Log) line(level zapcore.Level, message string, fields []zap.Field) {
	if a.File == nil {
		a.log.Log(level, message, append(fields, a.number()...)...)
		return
	}
	entry := zapcore.Entry{Level: level, Time: time.Now().UTC(), LoggerName: "card_gateway.audit"}
	if text, err := auditEncoder.EncodeEntry(entry, append(slices.Clip(fields), zap.String("run", logqueue.Run))); err == nil {
		a.File.Append(bytes.Clone(text.Bytes()))
		text.Free()
	}
	a.log.Log(level, message, fields...)
}

// Settle waits until the lines so far are in the file, for a limited time.
func (a *Log) Settle(ctx context.Context) {
	if a.File != nil {
		_ = a.File.Ready(ctx) // degraded reports the trouble
	}
}

// refusedLines is the error output of zap: each write is a line that an output
// has refused.
type refusedLines struct{}

func (refusedLines) Write(p []byte) (int, error) {
	counts.refused.Add(1)
	return len(p), nil
}

func (refusedLines) Sync() error { return nil }

// number returns the fields run and seq of the next line.
func (*Log) number() []zap.Field {
	return []zap.Field{zap.String("run", logqueue.Run), zap.Uint64("seq", counts.lines.Add(1))}
}

func auditLost() uint64 { return counts.refused.Load() + logqueue.AuditLost() }

// Lagging reports whether lines wait, or were lost and none was written since.
func (a *Log) Lagging() bool {
	if a.File != nil {
		return a.File.LinesWait()
	}
	return auditLost() != counts.reported.Load()
}

const auditPatience = time.Second

// Check returns nil when the audit record takes lines, and otherwise a
// [store.ErrUnavailable].
func (a *Log) Check(ctx context.Context) error {
	if a.File == nil {
		return a.checkLogger(ctx)
	}
	if err := a.File.Ready(ctx); err != nil {
		return fmt.Errorf("%w: the audit record cannot be written, so no key may be changed: %w", store.ErrUnavailable, err)
	}
	return nil
}

// checkLogger writes, after a loss, a line that reports how many were lost. If that
// line is lost too, it returns an error.
func (a *Log) checkLogger(ctx context.Context) error {
	if !a.Lagging() {
		return nil
	}
	counts.mu.Lock()
	defer counts.mu.Unlock()
	lost := auditLost()
	missing := lost - counts.reported.Load()
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
	counts.reported.Store(lost)
	return nil
}

// guarded refuses to change keys while the audit log takes no lines. It
// still settles requests, which may lock keys without a line.
type guarded struct {
	store.Backend
	audit *Log
}

// Guard returns the backend, but refuses to change keys while the record takes no
// lines.
func (a *Log) Guard(backend store.Backend) store.Backend { return &guarded{backend, a} }

// Local reports whether the backend answers from memory; see store.LocalBackend.
func (b *guarded) Local() bool {
	local, ok := b.Backend.(store.LocalBackend)
	return ok && local.Local()
}

func (b *guarded) Put(ctx context.Context, r *store.Record, opt store.PutOptions) (store.Durability, error) {
	if err := b.audit.Check(ctx); err != nil {
		return store.Durability{}, err
	}
	return b.Backend.Put(ctx, r, opt)
}

func (b *guarded) Delete(ctx context.Context, id, revision string) (store.Durability, error) {
	if err := b.audit.Check(ctx); err != nil {
		return store.Durability{}, err
	}
	return b.Backend.Delete(ctx, id, revision)
}

// Configuration is what a configuration says about the gateway: the options of the
// app and of its handlers, in JSON, by module. It holds references to secrets, and
// no secret.
type Configuration struct {
	mu    sync.Mutex
	parts map[string][]json.RawMessage
}

// Add notes the options of a module. A module with several places has several.
func (c *Configuration) Add(module string, options any) {
	text, err := json.Marshal(options)
	if err != nil {
		return // a module whose options have no JSON was not loaded from JSON
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts == nil {
		c.parts = make(map[string][]json.RawMessage)
	}
	c.parts[module] = append(c.parts[module], text)
}

// fields returns the options by a name such as card_gateway.window. The places of a
// handler are one field, sorted, because Caddy provisions them in any order.
func (c *Configuration) fields() map[string]json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]json.RawMessage)
	for module, parts := range c.parts {
		options := make(map[string]json.RawMessage)
		if len(parts) == 1 && json.Unmarshal(parts[0], &options) == nil && module == "card_gateway" {
			for name, value := range options {
				all[module+"."+name] = value
			}
			continue
		}
		texts := make([]string, len(parts))
		for i, part := range parts {
			texts[i] = string(part)
		}
		slices.Sort(texts)
		all[module], _ = json.Marshal(slices.Compact(texts))
	}
	return all
}

// Begin opens the file. It returns an error if the path cannot be that of an audit
// file. While the file cannot be written for another reason, such as a full disk,
// the gateway serves requests, and refuses changes of keys.
func (a *Log) Begin() error {
	if a.File == nil {
		return nil
	}
	err := a.File.Ready(context.Background())
	if errors.Is(err, auditfile.ErrUnfit) {
		return fmt.Errorf("audit: %w", err)
	}
	if err != nil {
		a.log.Error("the audit record cannot be written, so no key may be changed", zap.Error(err))
	}
	return nil
}

// Trail returns the newest lines of the file that name a key, at most n.
func (a *Log) Trail(keyID string, n int) (auditfile.Trail, error) {
	if a.File == nil {
		return auditfile.Trail{}, adminapi.Error{Status: http.StatusNotFound, Err: errors.New("the audit record of this gateway is its log: write `audit file PATH` into the block card_gateway to keep it in a file")}
	}
	return a.File.Trail(keyID, n)
}

// State returns how far the file was written; nil: there is none.
func (a *Log) State() *auditfile.State {
	if a.File == nil {
		return nil
	}
	s := a.File.State()
	return &s
}

// loadedBefore is the configuration that runs, or ran last.
var loadedBefore struct {
	sync.Mutex
	fields map[string]json.RawMessage
}

// Configured writes that a configuration runs, and what it changed.
func (a *Log) Configured(c *Configuration) {
	now := c.fields()
	loadedBefore.Lock()
	before := loadedBefore.fields
	loadedBefore.fields = now
	loadedBefore.Unlock()
	all, _ := json.Marshal(now) // maps are sorted
	sum := sha256.Sum256(all)
	fields := []zap.Field{
		zap.String("actor", loader), zap.String("action", "load"), zap.String("result", "ok"),
		zap.String("configuration", hex.EncodeToString(sum[:])),
	}
	if before != nil {
		fields = append(fields, zap.Object("changes", differences(before, now)))
	}
	a.line(zapcore.InfoLevel, "configuration load", fields)
}

// loader is the actor of loads: Caddy does not report who called its own routes.
const loader = "admin endpoint"

// RefusedLoad writes that a configuration was not loaded: it was refused, or was in
// order and failed to start.
func (a *Log) RefusedLoad(err error) {
	result := "refused"
	if peek.StartFailed(err) {
		result = "failed"
	}
	a.line(zapcore.WarnLevel, "configuration load", []zap.Field{
		zap.String("actor", loader), zap.String("action", "load"), zap.String("result", result), zap.String("error", err.Error()),
	})
}

func differences(before, now map[string]json.RawMessage) fieldChanges {
	names := make(map[string]bool, len(now))
	for name := range before {
		names[name] = true
	}
	for name := range now {
		names[name] = true
	}
	var changes fieldChanges
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if string(before[name]) != string(now[name]) {
			changes = append(changes, keys.FieldChange{Field: name, Old: before[name], New: now[name]})
		}
	}
	return changes
}
