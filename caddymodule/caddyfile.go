package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/caddymodule/console"
	"github.com/card-gateway/card-gateway/caddymodule/issuer"
	"github.com/card-gateway/card-gateway/caddymodule/routes"
	"github.com/card-gateway/card-gateway/caddymodule/self"
	"github.com/card-gateway/card-gateway/caddymodule/settings"
	"github.com/card-gateway/card-gateway/caddymodule/stores"
	"github.com/card-gateway/card-gateway/caddymodule/translating"
)

func init() {
	caddy.RegisterModule(new(App))
	caddy.RegisterModule(new(stores.FileStore))
	caddy.RegisterModule(new(stores.RedisStore))
	httpcaddyfile.RegisterGlobalOption("card_gateway", settings.ParseGlobalOption)

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
		func() handlerModule { return new(translating.Translate) },
		func() handlerModule { return new(issuer.Forward) },
		func() handlerModule { return new(Open) },
		func() handlerModule { return new(self.Self) },
		func() handlerModule { return new(JWKS) },
		func() handlerModule { return new(console.Console) },
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
