package caddymodule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"

	"github.com/card-gateway/card-gateway/caddymodule/routes"
	"github.com/card-gateway/card-gateway/headers"
	"github.com/card-gateway/card-gateway/secret"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("card_gateway", parseGlobalOption)

	// card_rate_limit notes how limits apply before card_auth charges them. Both
	// run before Caddy's own authentication; card_translate runs after `encode`,
	// so that encode compresses the translated answer.
	httpcaddyfile.RegisterDirectiveOrder("card_rate_limit", httpcaddyfile.Before, "basic_auth")
	httpcaddyfile.RegisterDirectiveOrder("card_auth", httpcaddyfile.Before, "basic_auth")
	httpcaddyfile.RegisterDirectiveOrder("card_translate", httpcaddyfile.After, "encode")
	httpcaddyfile.RegisterDirectiveOrder("card_forward", httpcaddyfile.Before, "reverse_proxy")
	httpcaddyfile.RegisterDirectiveOrder("card_open", httpcaddyfile.Before, "reverse_proxy")
	httpcaddyfile.RegisterDirectiveOrder("card_self", httpcaddyfile.Before, "respond")
	httpcaddyfile.RegisterDirectiveOrder("card_jwks", httpcaddyfile.Before, "respond")
	httpcaddyfile.RegisterDirectiveOrder("card_console", httpcaddyfile.Before, "respond")
	httpcaddyfile.RegisterDirectiveOrder("card_health", httpcaddyfile.Before, "respond")
	httpcaddyfile.RegisterDirectiveOrder("card_refuse", httpcaddyfile.Before, "respond")

	for _, handler := range []func() handlerModule{
		func() handlerModule { return new(Auth) },
		func() handlerModule { return new(RateLimit) },
		func() handlerModule { return new(Translate) },
		func() handlerModule { return new(Forward) },
		func() handlerModule { return new(Open) },
		func() handlerModule { return new(Self) },
		func() handlerModule { return new(JWKS) },
		func() handlerModule { return new(Console) },
		func() handlerModule { return new(Health) },
		func() handlerModule { return new(Refuse) },
	} {
		caddy.RegisterModule(handler())
		httpcaddyfile.RegisterHandlerDirective(routes.Name(handler()), func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
			m := handler()
			return m, m.UnmarshalCaddyfile(h.Dispenser)
		})
	}
}

// handlerModule is a handler with a directive.
type handlerModule interface {
	caddyhttp.MiddlewareHandler
	caddy.Provisioner
	caddy.Module
	caddyfile.Unmarshaler
}

// An option is one line of a block of the Caddyfile.
type option struct {
	name string
	read func(d *caddyfile.Dispenser) error
	// repeats is set if the option may be on several lines.
	repeats bool
	// instead is the advice in the error for a second line.
	instead string
}

// readBlock reads the options of a block, if there is one. An unknown option,
// and a second line of one that does not repeat, are errors with the line.
func readBlock(d *caddyfile.Dispenser, of string, options []option) error {
	given := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		at := slices.IndexFunc(options, func(o option) bool { return o.name == name })
		if at < 0 {
			return d.Errf("unknown option %s of %s; it takes %s", name, of, optionNames(options))
		}
		o := &options[at]
		if given[name] && !o.repeats {
			return d.Errf("%s is given a second time; %s", name, o.insteadOrDefault())
		}
		given[name] = true
		if err := o.read(d); err != nil {
			return err
		}
	}
	return nil
}

func (o *option) insteadOrDefault() string {
	if o.instead != "" {
		return o.instead
	}
	return "write one line"
}

func optionNames(options []option) string {
	names := make([]string, len(options))
	for i := range options {
		names[i] = options[i].name
	}
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// flagOption reads an option that takes no argument.
func flagOption(name string, into *bool) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) error {
		*into = true
		return noMore(d)
	}}
}

// textOption reads an option with one argument. Errors describe it as expected.
func textOption(name, expected string, into *string) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) (err error) {
		*into, err = oneArg(d, expected)
		return err
	}}
}

// durationOption reads an option with a time span such as 5m.
func durationOption(name string, into *caddy.Duration) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) (err error) {
		*into, err = parseDuration(d)
		return err
	}}
}

// sizeOption reads an option with a size in bytes such as 1MiB.
func sizeOption(name string, into *int64) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) (err error) {
		*into, err = parseSize(d)
		return err
	}}
}

// shareOption reads an option with a part of a whole, as 1/8 or 0.125.
func shareOption(name string, into *float64) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) error {
		text, err := oneArg(d, "a part such as 1/8")
		if err != nil {
			return err
		}
		part, of, isRatio := strings.Cut(text, "/")
		share, err := strconv.ParseFloat(part, 64)
		if err == nil && isRatio {
			var whole float64
			whole, err = strconv.ParseFloat(of, 64)
			share /= whole
		}
		if err != nil || !(share > 0 && share <= 1) {
			return d.Errf("%s: %q is not a part of the whole; write for example 1/8 or 0.125", name, text)
		}
		*into = share
		return nil
	}}
}

// numberOption reads an option with a whole number, not below least.
func numberOption(name string, least int, into *int) option {
	return option{name: name, read: func(d *caddyfile.Dispenser) (err error) {
		*into, err = parseNumber(d, least)
		return err
	}}
}

// noMore refuses further arguments on the line.
func noMore(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.Errf("unexpected argument %q", d.Val())
	}
	return nil
}

// oneArg returns the single argument of an option.
func oneArg(d *caddyfile.Dispenser, expected string) (string, error) {
	option := d.Val()
	if !d.NextArg() {
		return "", d.Errf("%s needs %s", option, expected)
	}
	value := d.Val()
	return value, noMore(d)
}

// parseNumber reads a whole number that is not below the least.
func parseNumber(d *caddyfile.Dispenser, least int) (int, error) {
	option := d.Val()
	text, err := oneArg(d, "a number")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, d.Errf("%s: %q is no number from %d on", option, text, least)
	}
	return n, nil
}

// parseSize reads a size in bytes such as 1MiB.
func parseSize(d *caddyfile.Dispenser) (int64, error) {
	text, err := oneArg(d, "a size such as 1MiB")
	if err != nil {
		return 0, err
	}
	return sizeOf(d, text)
}

func sizeOf(d *caddyfile.Dispenser, text string) (int64, error) {
	size, err := humanize.ParseBytes(text)
	if err != nil || size < 1 || size > 1<<40 {
		return 0, d.Errf("%q is no size; write for example 1MiB or 65536", text)
	}
	return int64(size), nil
}

// parseDuration reads a time span such as 5m.
func parseDuration(d *caddyfile.Dispenser) (caddy.Duration, error) {
	option := d.Val()
	text, err := oneArg(d, "a time span such as 5m")
	if err != nil {
		return 0, err
	}
	span, err := caddy.ParseDuration(text)
	if err != nil || span < 0 {
		return 0, d.Errf("%s: %q is no time span; write for example 30s, 5m or 1h", option, text)
	}
	return caddy.Duration(span), nil
}

// parseSecretRef reads the tokens `env NAME` or `file PATH`.
func parseSecretRef(d *caddyfile.Dispenser) (*secret.Ref, error) {
	if !d.NextArg() {
		return nil, d.Err("expected: env NAME, or file PATH; the secret itself never stands in the configuration")
	}
	kind := d.Val()
	if kind != "env" && kind != "file" {
		return nil, d.Err("expected env or file after the option; the secret itself never stands in the configuration")
	}
	if !d.NextArg() {
		return nil, d.Errf("expected a name or path after %s", kind)
	}
	if kind == "env" {
		return &secret.Ref{Env: d.Val()}, nil
	}
	return &secret.Ref{File: d.Val()}, nil
}

// UnmarshalCaddyfile reads:
//
//	card_auth {
//	    max_body <size>
//	    body_timeout <time span>
//	    generic_messages
//	    dry_run
//	    assert {
//	        algorithm EdDSA|HS256
//	        key env <name> | file <path>
//	        issuer <name>
//	        audience <name>
//	    }
//	    pass_header <name>...
//	    headers only <name>...
//	}
func (h *Auth) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return readHandler(d, "card_auth", append([]option{
		sizeOption("max_body", &h.MaxBody),
		durationOption("body_timeout", &h.BodyTimeout),
		flagOption("generic_messages", &h.GenericMessages),
		flagOption("dry_run", &h.DryRun),
		{name: "assert", read: h.readAssert},
	}, headerOptions(&h.Rule)...))
}

// readHandler reads a directive that takes no argument and a block of options.
func readHandler(d *caddyfile.Dispenser, name string, options []option) error {
	d.Next()
	if err := noMore(d); err != nil {
		return err
	}
	return readBlock(d, name, options)
}

// UnmarshalCaddyfile reads:
//
//	card_rate_limit {
//	    dry_run
//	    ietf_headers
//	}
//
// The limits themselves are in the global block card_gateway.
func (h *RateLimit) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return readHandler(d, "card_rate_limit (limits are options of the global block card_gateway)", []option{
		flagOption("dry_run", &h.DryRun),
		flagOption("ietf_headers", &h.IETFHeaders),
	})
}

// UnmarshalCaddyfile reads:
//
//	card_translate {
//	    upstream snake_case|camelCase
//	}
func (h *Translate) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return readHandler(d, "card_translate", []option{{name: "upstream", read: func(d *caddyfile.Dispenser) (err error) {
		if h.Upstream, err = oneArg(d, "snake_case or camelCase"); err != nil {
			return err
		}
		if err := validUpstream(h.Upstream); err != nil {
			return d.WrapErr(err)
		}
		return nil
	}}})
}

// UnmarshalCaddyfile reads:
//
//	card_self {
//	    rotate no|yes [overlap <time span>]
//	}
func (h *Self) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return readHandler(d, "card_self", []option{{name: "rotate", read: func(d *caddyfile.Dispenser) error {
		const form = "expected: rotate no, or rotate yes [overlap <time span>]"
		words := d.RemainingArgs()
		switch {
		case len(words) == 1 && words[0] == "no":
		case len(words) == 1 && words[0] == "yes":
			h.Rotate = true
		case len(words) == 3 && words[0] == "yes" && words[1] == "overlap":
			overlap, err := caddy.ParseDuration(words[2])
			if err != nil {
				return d.Errf("overlap: %q is not a time span such as 24h", words[2])
			}
			if err := checkOverlap(overlap); err != nil {
				return d.WrapErr(err)
			}
			h.Rotate, h.Overlap = true, caddy.Duration(overlap)
		default:
			return d.Err(form)
		}
		return nil
	}}})
}

// UnmarshalCaddyfile reads `card_health live` or `card_health ready`.
func (h *Health) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.NextArg() {
		return d.Err("card_health needs one argument: live or ready")
	}
	h.Check = d.Val()
	if err := validCheck(h.Check); err != nil {
		return d.WrapErr(err)
	}
	return noMore(d)
}

// UnmarshalCaddyfile reads `card_refuse unknown_host` or
// `card_refuse not_found`.
func (h *Refuse) UnmarshalCaddyfile(d *caddyfile.Dispenser) (err error) {
	d.Next()
	if h.Reason, err = oneArg(d, "one argument: unknown_host or not_found"); err != nil {
		return err
	}
	if _, err := refusable(h.Reason); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// headerOptions returns the options of a rule in a handler's block.
func headerOptions(rule *headers.Rule) []option {
	return []option{
		{name: "pass_header", repeats: true, read: func(d *caddyfile.Dispenser) error {
			names := d.RemainingArgs()
			if len(names) == 0 {
				return d.Err("pass_header needs the names of headers")
			}
			rule.PassHeader = append(rule.PassHeader, names...)
			return nil
		}},
		{name: "headers", instead: "write all names on one line", read: func(d *caddyfile.Dispenser) error {
			words := d.RemainingArgs()
			if len(words) < 2 || words[0] != "only" {
				return d.Err("expected: headers only, and the names of headers")
			}
			rule.OnlyHeaders = words[1:]
			return nil
		}},
	}
}

// at returns a function that puts the file and line of the current token in front
// of a later error.
func at(d *caddyfile.Dispenser) func(error) error {
	file, line := d.File(), d.Line()
	return func(err error) error { return fmt.Errorf("%s:%d: %w", file, line, err) }
}
