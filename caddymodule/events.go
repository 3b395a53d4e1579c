package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

// keyEvents holds the Caddy event for each action on a key, for other modules.
// The data of each are key_id, tenant and actor.
var keyEvents = map[string]string{
	"create":  "card_gateway.key_created",
	"import":  "card_gateway.key_created",
	"copy":    "card_gateway.key_created",
	"restore": "card_gateway.key_created",
	"disable": "card_gateway.key_disabled",
	"enable":  "card_gateway.key_enabled",
	"lock":    "card_gateway.key_locked",
	"unlock":  "card_gateway.key_unlocked",
	"rotate":  "card_gateway.key_rotated",
	"delete":  "card_gateway.key_deleted",
}

// eventEmitter returns the function that emits events of a configuration.
func eventEmitter(ctx caddy.Context) (func(string, map[string]any), error) {
	module, err := ctx.App("events")
	if err != nil {
		return nil, err
	}
	events, _ := module.(*caddyevents.App)
	return func(name string, data map[string]any) {
		if events != nil && events.ShouldEmit(name) {
			events.Emit(ctx, name, data)
		}
	}, nil
}
