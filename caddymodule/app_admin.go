package caddymodule

import (
	"context"
	"time"

	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
	"github.com/card-gateway/card-gateway/keys"
)

// The methods of the admin API, which is the interface keyadmin.Gateway.

// Keys returns the service of the keys, for the admin API; nil before
// the app is provisioned.
func (a *App) Keys() *keys.Service {
	if a.state == nil {
		return nil
	}
	return a.state.keys
}

// AdminTokens returns the tokens that open the admin API.
func (a *App) AdminTokens() *keyadmin.Tokens { return a.tokens }

// AuditCall writes a line of the audit record, for the admin API.
func (a *App) AuditCall(c keys.Change) { a.telemetry.audit.write(c) }

// State reports the state of the gateway, for the admin API.
func (a *App) State(ctx context.Context) keyadmin.State {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	s := keyadmin.State{
		Ready: true, Node: thisNode.state(), Degraded: a.state.degraded(ctx), Policy: a.rules.policy().Hash(), Loads: loads.last(),
		Offenders: refusedKeys.Top(time.Now(), 10), Audit: a.telemetry.audit.state(),
	}
	err := a.state.ready(ctx)
	if err == nil && s.Drained {
		err = errDrained
	}
	if err != nil {
		s.Ready, s.Reason = false, err.Error()
	}
	return s
}

// LoadRefused writes a line of the audit record for a configuration that was not
// loaded, for the admin API.
func (a *App) LoadRefused(err error) {
	loads.refused(time.Now(), err)
	a.telemetry.audit.refusedLoad(err)
}

// BodyMemory reports the memory for request bodies, for the admin API.
func (a *App) BodyMemory() keyadmin.BodyMemory {
	m := a.state.bodies
	return keyadmin.BodyMemory{Bytes: m.used.Load(), Limit: m.limit, Holders: m.largest(10)}
}

// Refusal reports what is remembered of a refusal, for the admin API.
func (a *App) Refusal(requestID string) (keyadmin.Refusal, bool) {
	return a.state.refusals.find(requestID)
}
