package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/card-gateway/card-gateway/keys"
)

// keyEvents names the Caddy events by which other modules learn of changes of
// keys, by action. The data of each are key_id, tenant and actor.
var keyEvents = map[string]string{
	"create":  "card_gateway.key_created",
	"import":  "card_gateway.key_created",
	"disable": "card_gateway.key_disabled",
	"enable":  "card_gateway.key_enabled",
	"lock":    "card_gateway.key_locked",
	"unlock":  "card_gateway.key_unlocked",
	"rotate":  "card_gateway.key_rotated",
	"delete":  "card_gateway.key_deleted",
}

// provisionEvents finds Caddy's events app.
func (a *App) provisionEvents(ctx caddy.Context) error {
	module, err := ctx.App("events")
	if err != nil {
		return err
	}
	a.ctx = ctx
	a.events, _ = module.(*caddyevents.App)
	return nil
}

// changed is told of every change of a key, whoever made it: the audit log has
// a line for each, and what came about is an event.
func (a *App) changed(c keys.Change) {
	auditChange(a.audit, c)
	name, known := keyEvents[c.Action]
	if c.Err != nil || !known || a.events == nil || !a.events.ShouldEmit(name) {
		return
	}
	a.events.Emit(a.ctx, name, map[string]any{"key_id": c.KeyID, "tenant": c.Tenant, "actor": c.Actor})
}
