package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

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
	}, h.HeaderRule.options()...))
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

// options returns the options of the rule in a handler's block.
func (rule *HeaderRule) options() []option {
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
