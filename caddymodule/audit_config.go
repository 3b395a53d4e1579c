package caddymodule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/card-gateway/card-gateway/caddymodule/auditfile"
	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
	"github.com/card-gateway/card-gateway/keys"
)

// configuration is what a configuration says about the gateway: the options of the
// app and of its handlers, in JSON, by module. It holds references to secrets, and
// no secret.
type configuration struct {
	mu    sync.Mutex
	parts map[string][]json.RawMessage
}

// add notes the options of a module. A module with several places has several.
func (c *configuration) add(module string, options any) {
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
func (c *configuration) fields() map[string]json.RawMessage {
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

// begin opens the file. It returns an error if the path cannot be that of an audit
// file. While the file cannot be written for another reason, such as a full disk,
// the gateway serves requests, and refuses changes of keys.
func (a *auditLog) begin() error {
	if a.file == nil {
		return nil
	}
	err := a.file.Ready(context.Background())
	if errors.Is(err, auditfile.ErrUnfit) {
		return fmt.Errorf("audit: %w", err)
	}
	if err != nil {
		a.log.Error("the audit record cannot be written, so no key may be changed", zap.Error(err))
	}
	return nil
}

// state returns how far the file was written; nil: there is none.
func (a *auditLog) state() *auditfile.State {
	if a.file == nil {
		return nil
	}
	s := a.file.State()
	return &s
}

// configured writes that a configuration runs, and what it changed.
func (a *auditLog) configured(c *configuration) {
	now := c.fields()
	process.loaded.Lock()
	before := process.loaded.fields
	process.loaded.fields = now
	process.loaded.Unlock()
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

// refusedLoad writes that a configuration was not loaded: it was refused, or was in
// order and failed to start.
func (a *auditLog) refusedLoad(err error) {
	result := "refused"
	if keyadmin.StartFailed(err) {
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
