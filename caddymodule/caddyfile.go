package caddymodule

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
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

	for name, handler := range map[string]func() handlerModule{
		"card_auth":       func() handlerModule { return new(Auth) },
		"card_rate_limit": func() handlerModule { return new(RateLimit) },
		"card_translate":  func() handlerModule { return new(Translate) },
		"card_forward":    func() handlerModule { return new(Forward) },
		"card_open":       func() handlerModule { return new(Open) },
		"card_self":       func() handlerModule { return new(Self) },
		"card_jwks":       func() handlerModule { return new(JWKS) },
		"card_console":    func() handlerModule { return new(Console) },
		"card_health":     func() handlerModule { return new(Health) },
		"card_refuse":     func() handlerModule { return new(Refuse) },
	} {
		httpcaddyfile.RegisterHandlerDirective(name, func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
			m := handler()
			return m, m.UnmarshalCaddyfile(h.Dispenser)
		})
	}
}

// handlerModule is a handler with a directive.
type handlerModule interface {
	caddyhttp.MiddlewareHandler
	caddyfile.Unmarshaler
}
