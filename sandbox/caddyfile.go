package sandbox

import (
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("card_sandbox", parseHandler)
	// Ordered last, so that all other handlers of a site come before it.
	httpcaddyfile.RegisterDirectiveOrder("card_sandbox", httpcaddyfile.After, "file_server")
}

func parseHandler(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	parsed := new(Handler)
	return parsed, parsed.UnmarshalCaddyfile(h.Dispenser)
}

// UnmarshalCaddyfile reads
//
//	card_sandbox [<name>] {
//		max_customers <n>
//		max_cards     <n>
//		max_records   <n>
//		assertion     <address of the JWK set> <audience>
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive itself
	if d.NextArg() {
		h.Name = d.Val()
	}
	if d.NextArg() {
		return d.Errf("card_sandbox takes at most a name, not also %q", d.Val())
	}
	for d.NextBlock(0) {
		var err error
		switch option := d.Val(); option {
		case "max_customers":
			h.MaxCustomers, err = parseBound(d)
		case "max_cards":
			h.MaxCards, err = parseBound(d)
		case "max_records":
			h.MaxRecords, err = parseBound(d)
		case "assertion":
			h.Assertion = new(AssertionCheck)
			if !d.Args(&h.Assertion.JWKS, &h.Assertion.Audience) || d.NextArg() {
				err = d.Err("assertion needs the address of the gateway's JWK set, and an audience")
			}
		default:
			err = d.Errf("card_sandbox has no option %q; it has max_customers, max_cards, max_records and assertion", option)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func parseBound(d *caddyfile.Dispenser) (int, error) {
	option := d.Val()
	if !d.NextArg() {
		return 0, d.ArgErr()
	}
	n, err := strconv.Atoi(d.Val())
	if err != nil || n < 1 {
		return 0, d.Errf("%s: %q is not a whole number from 1 up", option, d.Val())
	}
	if d.NextArg() {
		return 0, d.ArgErr()
	}
	return n, nil
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
