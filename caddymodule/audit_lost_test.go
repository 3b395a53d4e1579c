package caddymodule

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

// fullDisk is an output that refuses lines while it is full.
type fullDisk struct {
	full atomic.Bool
	text bytes.Buffer
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.full.Load() {
		return 0, errors.New("no space left on device")
	}
	return d.text.Write(p)
}

// While lines of the audit log are lost, no key is changed, requests are
// settled and lock keys, and the gateway says that it is degraded. The first
// line that can be written again tells how many are missing.
func TestNoAuditNoChange(t *testing.T) {
	disk := new(fullDisk)
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg"})
	g := newGateWith(t, zap.New(zapcore.NewCore(encoder, zapcore.AddSync(disk), zap.InfoLevel)))
	degraded := func() string { return strings.Join(g.auth.site.state.degraded(t.Context()), " ") }
	create := func() error {
		_, err := g.keys.Create(t.Context(), keys.CreateRequest{Fields: store.Fields{Tenant: "acme", Scopes: []string{"*"}}}, keys.By{Actor: "test"})
		return err
	}
	s := g.signer(store.Fields{})
	if got := degraded(); strings.Contains(got, "audit") {
		t.Fatalf("degraded %q while all is well", got)
	}

	disk.full.Store(true)
	if err := create(); err != nil {
		t.Fatalf("the change whose line is the first to be lost: %v", err)
	}
	for range 2 {
		if err := create(); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "audit log") {
			t.Errorf("a change without a line: %v", err)
		}
	}
	if _, err := g.keys.Delete(t.Context(), s.KeyID, keys.By{Actor: "test"}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a deletion without a line: %v", err)
	}
	if got := degraded(); !strings.Contains(got, "audit") {
		t.Errorf("degraded %q, want audit in it", got)
	}
	if answer := g.get(s, "192.0.2.1", func(*http.Request) {}); answer.Code != http.StatusNoContent {
		t.Errorf("a request is answered %d without an audit log", answer.Code)
	}

	disk.full.Store(false)
	before := disk.text.Len()
	if err := create(); err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(disk.text.String()[before:]), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"msg":"lines of the audit log were lost","lost":`) || !strings.Contains(lines[1], `"action":"create"`) {
		t.Errorf("the audit log goes on with %q", lines)
	}
	if got := degraded(); strings.Contains(got, "audit") {
		t.Errorf("degraded %q when all is well again", got)
	}
}
