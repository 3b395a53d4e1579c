package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/caddymodule/logqueue"
	"github.com/card-gateway/card-gateway/keys"
)

func TestAuditChange(t *testing.T) {
	yes := true
	tests := []struct {
		name   string
		change keys.Change
		want   string
	}{
		{"done", keys.Change{
			Actor: "alice", Action: "update", KeyID: "ck_live_x", Tenant: "acme", Revision: "r2", Replicated: &yes,
			Fields: []keys.FieldChange{
				{Field: "scopes", Old: json.RawMessage(`["*"]`), New: json.RawMessage(`["cards:read"]`)},
				{Field: "allowed_ips", New: json.RawMessage(`["192.0.2.1"]`)},
			},
		}, `{"level":"info","msg":"key update","actor":"alice","action":"update","key_id":"ck_live_x","tenant":"acme","result":"ok","revision":"r2","replicated":true,` +
			`"changes":{"scopes":{"old":["*"],"new":["cards:read"]},"allowed_ips":{"old":null,"new":["192.0.2.1"]}}}`},
		{"failed", keys.Change{Actor: "bob", Action: "disable", KeyID: "k", Tenant: "t", Err: errors.New("no store")},
			`{"level":"warn","msg":"key disable","actor":"bob","action":"disable","key_id":"k","tenant":"t","error":"no store","result":"failed"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg", LevelKey: "level", EncodeLevel: zapcore.LowercaseLevelEncoder})
			NewLog(zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&out), zap.InfoLevel))).Write(test.change)
			number := fmt.Sprintf(`,"run":%q,"seq":%d}`, logqueue.Run, counts.lines.Load())
			if got := strings.TrimSpace(out.String()); got != strings.TrimSuffix(test.want, "}")+number {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}
