package settings

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// ParseGlobalOption reads the global option card_gateway:
//
//	card_gateway {
//	    store <kind> ...
//	    master_key env <name> | file <path>
//	    seal required
//	    admin_token file <path>
//	    audit file <path>
//	    window <time span>
//	    lock_after <failures>
//	    lock_duration <time span>
//	    lock_counts ip | timestamp | nonce ...
//	    replay_floor_ahead <time span>
//	    body_budget <size>
//	    body_share <part>
//	    body_share_address <part>
//	    runtime_dir <path>
//	    answer_budget <size>
//	    sign_responses
//	    log_unredacted
//	    docs_url <address>
//	    limit <operation> | default | total <count>/<period> [burst <n>] [cost <n>]
//	    operation <name> <method> <path> <scope> [max_body <size>] [max_answer <size>]
//	}
func ParseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next()
	if existing != nil {
		return nil, d.Err("card_gateway is given a second time; write one block")
	}
	if err := directive.NoMore(d); err != nil {
		return nil, err
	}
	p := appParser{d: d, config: new(Config), limitAt: make(map[string]func(error) error)}
	if err := directive.Block(d, "card_gateway", p.options()); err != nil {
		return nil, err
	}
	if err := p.checkLimits(); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "card_gateway", Value: caddyconfig.JSON(p.config, nil)}, nil
}

type appParser struct {
	d       *caddyfile.Dispenser
	config  *Config
	limitAt map[string]func(error) error // adds the line of each limit to an error
}

func (p *appParser) options() []directive.Option {
	c := p.config
	call := func(f func() error) func(*caddyfile.Dispenser) error {
		return func(*caddyfile.Dispenser) error { return f() }
	}
	return []directive.Option{
		{Name: "store", Read: call(p.store), Instead: "a gateway has one store"},
		{Name: "master_key", Read: call(p.masterKey), Instead: "several master keys are several lines of one file or variable"},
		directive.Text("seal", "required", &c.Seal),
		{Name: "admin_token", Read: call(p.adminToken), Instead: "several tokens are several lines of one file"},
		{Name: "audit", Read: call(p.audit)},
		directive.Duration("window", &c.Window),
		directive.Number("lock_after", 1, &c.LockAfter),
		directive.Duration("lock_duration", &c.LockDuration),
		{Name: "lock_counts", Read: call(p.lockCounts), Repeats: true},
		{Name: "replay_floor_ahead", Read: call(p.replayFloorAhead)},
		directive.Size("body_budget", &c.BodyBudget),
		directive.Share("body_share", &c.BodyShare),
		directive.Share("body_share_address", &c.BodyShareAddress),
		directive.Text("runtime_dir", "the path of a directory", &c.RuntimeDir),
		directive.Size("answer_budget", &c.AnswerBudget),
		directive.Flag("sign_responses", &c.SignResponses),
		directive.Flag("log_unredacted", &c.LogUnredacted),
		directive.Text("docs_url", "the address of a page", &c.DocsURL),
		{Name: "limit", Read: call(p.limit), Repeats: true},
		{Name: "operation", Read: call(p.operation), Repeats: true},
	}
}

func (p *appParser) masterKey() (err error) {
	if p.config.MasterKey, err = directive.Secret(p.d); err != nil {
		return err
	}
	return directive.NoMore(p.d)
}

func (p *appParser) adminToken() (err error) {
	if p.config.AdminToken, err = directive.Secret(p.d); err != nil {
		return err
	}
	return directive.NoMore(p.d)
}

func (p *appParser) audit() error {
	args := p.d.RemainingArgs()
	if len(args) != 2 || args[0] != "file" {
		return p.d.Err("expected: audit file PATH")
	}
	p.config.Audit = &AuditConfig{File: args[1]}
	return nil
}

func (p *appParser) replayFloorAhead() error {
	ahead, err := directive.ReadDuration(p.d)
	p.config.ReplayFloorAhead = &ahead
	return err
}

// store reads `store <kind> ...`; the kind's module reads the rest.
func (p *appParser) store() error {
	d := p.d
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
	p.config.StoreRaw = caddyconfig.JSONModuleObject(module, "module", kind, nil)
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
	p.config.LockCounts = append(p.config.LockCounts, names...)
	return nil
}

func (p *appParser) limit() error {
	d := p.d
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.Err("limit needs a name and a rate: limit issue_card 60/1m burst 10")
	}
	name, text := args[0], strings.Join(args[1:], " ")
	if _, given := p.config.Limits[name]; given {
		return d.Errf("limit %s is given a second time", name)
	}
	var limit Limit
	if err := limit.UnmarshalText([]byte(text)); err != nil {
		return d.WrapErr(fmt.Errorf("limit %s: %w", name, err))
	}
	if _, err := ratelimit.NewPolicy(map[string]ratelimit.Limit{name: limit.Limit}); err != nil {
		return d.WrapErr(err)
	}
	if p.config.Limits == nil {
		p.config.Limits = make(map[string]Limit)
	}
	p.config.Limits[name] = limit
	p.limitAt[name] = directive.At(d)
	return nil
}

// checkLimits returns an error for a limit of an operation that does not exist.
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
	if _, err := newPolicy(p.config.Limits, table); err != nil {
		return p.d.WrapErr(err)
	}
	return nil
}

func (p *appParser) operation() error {
	d := p.d
	args := d.RemainingArgs()
	const expected = "expected: operation NAME METHOD PATH SCOPE [max_body SIZE] [max_answer SIZE]"
	if len(args) < 4 || len(args)%2 != 0 {
		return d.Err(expected)
	}
	operation := OperationConfig{Name: args[0], Method: args[1], Path: args[2], Scope: args[3]}
	sizes := map[string]*int64{"max_body": &operation.MaxBody, "max_answer": &operation.MaxAnswer}
	for at := 4; at < len(args); at += 2 {
		size := sizes[args[at]]
		if delete(sizes, args[at]); size == nil {
			return d.Err(expected)
		}
		var err error
		if *size, err = directive.SizeOf(d, args[at+1]); err != nil {
			return err
		}
	}
	p.config.Operations = append(p.config.Operations, operation)
	if _, err := auth.NewTable(p.operations()); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (p *appParser) operations() []auth.OperationDef { return operationDefs(p.config.Operations) }
