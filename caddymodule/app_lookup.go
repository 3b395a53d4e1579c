package caddymodule

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

var errNoApp = errors.New("there is no global option card_gateway; it says where the keys are and what is allowed")

// appOf returns the app that a handler belongs to, if the routes around the
// handler can be meant. The options are those of the handler, as they were given,
// for the audit record.
func appOf(ctx caddy.Context, handler string, options any) (*App, error) {
	module, err := ctx.AppIfConfigured("card_gateway")
	switch {
	case errors.Is(err, caddy.ErrNotConfigured):
		return nil, fmt.Errorf("%s: %w", handler, errNoApp)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", handler, err)
	}
	app, ok := module.(*App)
	if !ok {
		return nil, fmt.Errorf("%s: the app card_gateway is a %T", handler, module)
	}
	app.loaded.add(handler, options)
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return app, app.order.server(server)
}
