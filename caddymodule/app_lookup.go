package caddymodule

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
)

var errNoApp = errors.New("there is no global option card_gateway; it says where the keys are and what is allowed")

// appOf returns the app that a handler belongs to. The options are those of the
// handler, as they were given, for the audit record.
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
	return app, nil
}

// noteOptions notes the options of a handler that needs no app.
func noteOptions(ctx caddy.Context, handler string, options any) {
	if module, err := ctx.AppIfConfigured("card_gateway"); err == nil {
		if app, ok := module.(*App); ok {
			app.loaded.add(handler, options)
		}
	}
}
