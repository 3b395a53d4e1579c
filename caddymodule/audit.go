package caddymodule

import (
	"encoding/json"
	"net/http"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
	"github.com/card-gateway/card-gateway/keys"
)

// write writes one line of the audit record, for a change of a key or an attempt
// at one: actor, action, key, the old and the new value of each changed field, and
// the result. A Change holds no secret.
func (a *auditLog) write(c keys.Change) {
	level, result := zapcore.InfoLevel, "ok"
	fields := []zap.Field{zap.String("actor", c.Actor)}
	if c.Claimed != "" {
		fields = append(fields, zap.String("claimed", c.Claimed))
	}
	fields = append(fields, zap.String("action", c.Action), zap.String("key_id", shortened(c.KeyID)), zap.String("tenant", shortened(c.Tenant)))
	if c.Err != nil {
		level, result = zapcore.WarnLevel, "failed"
		if status := keyadmin.Status(c.Err); c.Refused() || status < http.StatusInternalServerError {
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

// explained writes that the answer to a request with a live key said what was
// wrong with it.
func (a *auditLog) explained(key *auth.Key, requestID string) {
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
