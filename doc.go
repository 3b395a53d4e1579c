// Package cardgateway registers all Caddy modules and commands of Card Gateway, by
// importing packages caddymodule and commands. It has no code of its own: it exists
// because xcaddy imports the root package of a module.
package cardgateway

import (
	_ "github.com/card-gateway/card-gateway/caddymodule"
	_ "github.com/card-gateway/card-gateway/commands"
)
