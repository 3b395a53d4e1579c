package caddymodule

import (
	"encoding/json"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/keys"
)

// write writes one line of the audit log, for a change of a key or an attempt at
// one: actor, action, key, the old and the new value of each changed field, and
// the result. A Change holds no secret. The logger is card_gateway.audit. To
// write it to a separate file, use `log NAME { include card_gateway.audit }` in
// the global options of the Caddyfile.
func (a *auditLog) write(c keys.Change) {
	level, result := zapcore.InfoLevel, "ok"
	fields := []zap.Field{
		zap.String("actor", c.Actor), zap.String("action", c.Action),
		zap.String("key_id", c.KeyID), zap.String("tenant", c.Tenant),
	}
	if c.Err != nil {
		level, result = zapcore.WarnLevel, "failed"
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
	a.log.Log(level, "key "+c.Action, append(fields, a.number()...)...)
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
