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
	"github.com/card-gateway/card-gateway/secret"
)

// parseGlobalOption reads the global option card_gateway:
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
//	    docs_url <address>
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
	if err := readBlock(d, "card_gateway", p.options()); err != nil {
		return nil, err
	}
	if err := p.checkLimits(); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "card_gateway", Value: caddyconfig.JSON(p.app, nil)}, nil
}

type appParser struct {
	d       *caddyfile.Dispenser
	app     *App
	limitAt map[string]func(error) error // adds the line of each limit to an error
}

func (p *appParser) options() []option {
	app := p.app
	call := func(f func() error) func(*caddyfile.Dispenser) error {
		return func(*caddyfile.Dispenser) error { return f() }
	}
	return []option{
		{name: "store", read: call(p.store), instead: "a gateway has one store"},
		{name: "master_key", read: call(p.masterKey), instead: "several master keys are several lines of one file or variable"},
		textOption("seal", "required", &app.Seal),
		{name: "admin_token", read: call(p.adminToken), instead: "several tokens are several lines of one file"},
		{name: "audit", read: call(p.audit)},
		durationOption("window", &app.Window),
		numberOption("lock_after", 1, &app.LockAfter),
		durationOption("lock_duration", &app.LockDuration),
		{name: "lock_counts", read: call(p.lockCounts), repeats: true},
		{name: "replay_floor_ahead", read: call(p.replayFloorAhead)},
		sizeOption("body_budget", &app.BodyBudget),
		shareOption("body_share", &app.BodyShare),
		shareOption("body_share_address", &app.BodyShareAddress),
		textOption("runtime_dir", "the path of a directory", &app.RuntimeDir),
		sizeOption("answer_budget", &app.AnswerBudget),
		flagOption("sign_responses", &app.SignResponses),
		textOption("docs_url", "the address of a page", &app.DocsURL),
		{name: "limit", read: call(p.limit), repeats: true},
		{name: "operation", read: call(p.operation), repeats: true},
	}
}

func (p *appParser) masterKey() (err error) {
	if p.app.MasterKey, err = parseSecretRef(p.d); err != nil {
		return err
	}
	return noMore(p.d)
}

func (p *appParser) adminToken() (err error) {
	if p.app.AdminToken, err = parseSecretRef(p.d); err != nil {
		return err
	}
	return noMore(p.d)
}

func (p *appParser) audit() error {
	args := p.d.RemainingArgs()
	if len(args) != 2 || args[0] != "file" {
		return p.d.Err("expected: audit file PATH")
	}
	p.app.Audit = &AuditConfig{File: args[1]}
	return nil
}

func (p *appParser) replayFloorAhead() error {
	ahead, err := parseDuration(p.d)
	p.app.ReplayFloorAhead = &ahead
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
	var limit Limit
	if err := limit.UnmarshalText([]byte(text)); err != nil {
		return d.WrapErr(fmt.Errorf("limit %s: %w", name, err))
	}
	if _, err := ratelimit.NewPolicy(map[string]ratelimit.Limit{name: limit.Limit}); err != nil {
		return d.WrapErr(err)
	}
	if p.app.Limits == nil {
		p.app.Limits = make(map[string]Limit)
	}
	p.app.Limits[name] = limit
	p.limitAt[name] = at(d)
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

// at returns a function that puts the file and line of the current token in front
// of a later error.
func at(d *caddyfile.Dispenser) func(error) error {
	file, line := d.File(), d.Line()
	return func(err error) error { return fmt.Errorf("%s:%d: %w", file, line, err) }
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

// UnmarshalCaddyfile reads one of
//
//	redis <url> [password env <name> | file <path>]
//	redis cluster <address...>
//	redis sentinel <master> <address...>
//
// with an optional block:
//
//	{
//	    username <name>
//	    password env <name> | file <path>
//	    sentinel_username <name>
//	    sentinel_password env <name> | file <path>
//	    db <number>
//	    tls
//	    ca_file <path>
//	    server_name <name>
//	    prefix <text>
//	    settle_timeout <time span>
//	    change_timeout <time span>
//	    io_timeout <time span>
//	    pool_size <number>
//	    max_nonces_per_key <number>
//	}
func (s *RedisStore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if err := s.parseWhere(d); err != nil {
		return err
	}
	secretOption := func(name string, into **secret.Ref) option {
		return option{name: name, read: func(d *caddyfile.Dispenser) (err error) {
			if *into != nil {
				return d.Errf("%s is given a second time; write one line", name)
			}
			*into, err = parseSecretRef(d)
			return err
		}}
	}
	return readBlock(d, "store redis", []option{
		textOption("username", "a name", &s.Username),
		secretOption("password", &s.Password),
		textOption("sentinel_username", "a name", &s.SentinelUsername),
		secretOption("sentinel_password", &s.SentinelPassword),
		numberOption("db", 0, &s.DB),
		flagOption("tls", &s.TLS),
		textOption("ca_file", "a path", &s.CAFile),
		textOption("server_name", "a name", &s.ServerName),
		textOption("prefix", "a text", &s.Prefix),
		durationOption("settle_timeout", &s.SettleTimeout),
		durationOption("change_timeout", &s.ChangeTimeout),
		durationOption("io_timeout", &s.IOTimeout),
		numberOption("pool_size", 1, &s.PoolSize),
		numberOption("max_nonces_per_key", 1, &s.MaxNoncesPerKey),
	})
}

func (s *RedisStore) parseWhere(d *caddyfile.Dispenser) (err error) {
	if !d.NextArg() {
		return d.Err("store redis needs a URL, `cluster` and addresses, or `sentinel`, a master and addresses")
	}
	switch d.Val() {
	case "cluster":
		if s.Cluster = d.RemainingArgs(); len(s.Cluster) == 0 {
			return d.Err("store redis cluster needs one or more addresses host:port")
		}
	case "sentinel":
		args := d.RemainingArgs()
		if len(args) < 2 {
			return d.Err("store redis sentinel needs the name of the master and one or more addresses host:port")
		}
		if strings.Contains(args[0], ":") {
			return d.Errf("store redis sentinel: %s is an address; the name of the master comes first", args[0])
		}
		s.Master, s.Sentinel = args[0], args[1:]
	default:
		s.URL = d.Val()
		if err := withoutPassword(s.URL); err != nil {
			return d.WrapErr(err)
		}
		if d.NextArg() {
			if d.Val() != "password" {
				return d.Errf("unexpected argument %q; expected password env NAME, or password file PATH", d.Val())
			}
			if s.Password, err = parseSecretRef(d); err != nil {
				return err
			}
		}
	}
	return noMore(d)
}
