package caddymodule

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// parseGlobalOption reads the global option card_gateway:
//
//	card_gateway {
//	    store <kind> ...
//	    master_key env <name> | file <path>
//	    window <time span>
//	    lock_after <failures>
//	    lock_duration <time span>
//	    lock_counts ip | timestamp | nonce ...
//	    replay_floor_ahead <time span>
//	    body_budget <size>
//	    limit <operation> | default | total <count>/<period> [burst <n>] [cost <n>]
//	    operation <name> <method> <path> <scope> [max_body <size>]
//	}
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next()
	if existing != nil {
		return nil, d.Err("card_gateway is given a second time; write one block")
	}
	if err := noMore(d); err != nil {
		return nil, err
	}
	p := appParser{d: d, app: new(App), limitAt: make(map[string]func(error) error)}
	for d.NextBlock(0) {
		if err := p.option(); err != nil {
			return nil, err
		}
	}
	if err := p.checkLimits(); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "card_gateway", Value: caddyconfig.JSON(p.app, nil)}, nil
}

type appParser struct {
	d       *caddyfile.Dispenser
	app     *App
	limitAt map[string]func(error) error // where each limit was given
}

func (p *appParser) option() (err error) {
	d, app := p.d, p.app
	switch d.Val() {
	case "store":
		return p.store()
	case "master_key":
		if app.MasterKey != nil {
			return d.Err("master_key is given a second time; several master keys are several lines of one file or variable")
		}
		if app.MasterKey, err = parseSecretRef(d); err != nil {
			return err
		}
		return noMore(d)
	case "window":
		app.Window, err = parseDuration(d)
	case "lock_after":
		app.LockAfter, err = parseNumber(d, 1)
	case "lock_duration":
		app.LockDuration, err = parseDuration(d)
	case "lock_counts":
		return p.lockCounts()
	case "replay_floor_ahead":
		var ahead caddy.Duration
		ahead, err = parseDuration(d)
		app.ReplayFloorAhead = &ahead
	case "body_budget":
		app.BodyBudget, err = parseSize(d)
	case "limit":
		return p.limit()
	case "operation":
		return p.operation()
	default:
		return d.Errf("unknown option %s of card_gateway; it takes store, master_key, window, lock_after, lock_duration, lock_counts, replay_floor_ahead, body_budget, limit and operation", d.Val())
	}
	return err
}

// store reads `store <kind> ...`; the kind's module reads the rest.
func (p *appParser) store() error {
	d := p.d
	if p.app.StoreRaw != nil {
		return d.Err("store is given a second time; a gateway has one store")
	}
	if !d.NextArg() {
		return d.Err("store needs a kind: file DIRECTORY, or redis URL")
	}
	kind := d.Val()
	id := "card_gateway.stores." + kind
	if _, err := caddy.GetModule(id); err != nil {
		return d.Errf("there is no store %s; use file or redis", kind)
	}
	module, err := caddyfile.UnmarshalModule(d, id)
	if err != nil {
		return err
	}
	p.app.StoreRaw = caddyconfig.JSONModuleObject(module, "module", kind, nil)
	return nil
}

func (p *appParser) lockCounts() error {
	names := p.d.RemainingArgs()
	if len(names) == 0 {
		return p.d.Err("lock_counts needs one or more of ip, timestamp, nonce")
	}
	if _, err := parseLockCounts(names); err != nil {
		return p.d.WrapErr(err)
	}
	p.app.LockCounts = append(p.app.LockCounts, names...)
	return nil
}

func (p *appParser) limit() error {
	d := p.d
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.Err("limit needs a name and a rate: limit issue_card 60/1m burst 10")
	}
	name, text := args[0], strings.Join(args[1:], " ")
	if _, given := p.app.Limits[name]; given {
		return d.Errf("limit %s is given a second time", name)
	}
	limit, err := ratelimit.ParseLimit(text)
	if err != nil {
		return d.WrapErr(fmt.Errorf("limit %s: %w", name, err))
	}
	if _, err := ratelimit.NewPolicy(map[string]ratelimit.Limit{name: limit}); err != nil {
		return d.WrapErr(err)
	}
	if p.app.Limits == nil {
		p.app.Limits = make(map[string]string)
	}
	p.app.Limits[name] = limit.String()
	p.limitAt[name] = at(d)
	return nil
}

// checkLimits finds limits for operations that no line of the block defines.
func (p *appParser) checkLimits() error {
	table, err := auth.NewTable(p.operations())
	if err != nil {
		return err
	}
	for name, where := range p.limitAt {
		if !limitName(name, table) {
			return where(unknownLimit(name, table))
		}
	}
	if _, err := newPolicy(p.app.Limits, table); err != nil {
		return p.d.WrapErr(err)
	}
	return nil
}

func (p *appParser) operation() error {
	d := p.d
	args := d.RemainingArgs()
	if len(args) != 4 && (len(args) != 6 || args[4] != "max_body") {
		return d.Err("expected: operation NAME METHOD PATH SCOPE [max_body SIZE]")
	}
	operation := OperationConfig{Name: args[0], Method: args[1], Path: args[2], Scope: args[3]}
	if len(args) == 6 {
		size, err := sizeOf(d, args[5])
		if err != nil {
			return err
		}
		operation.MaxBody = size
	}
	p.app.Operations = append(p.app.Operations, operation)
	if _, err := auth.NewTable(p.operations()); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (p *appParser) operations() []auth.OperationDef { return operationDefs(p.app.Operations) }

func operationDefs(operations []OperationConfig) []auth.OperationDef {
	defs := make([]auth.OperationDef, len(operations))
	for i, o := range operations {
		defs[i] = auth.OperationDef{Name: o.Name, Method: o.Method, Pattern: o.Path, Scope: o.Scope, MaxBody: o.MaxBody}
	}
	return defs
}

// UnmarshalCaddyfile reads `file [<directory>]`.
func (s *FileStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		s.Dir = d.Val()
	}
	return noMore(d)
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*FileStore)(nil)
)
