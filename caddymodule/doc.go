// Package caddymodule registers the Caddy modules of the gateway: the app
// card_gateway, its HTTP handlers and its stores. The packages below it register
// the admin API, the commands, the log format and the log output.
package caddymodule

import (
	_ "github.com/card-gateway/card-gateway/caddymodule/explaincmd" // registers card-explain
	_ "github.com/card-gateway/card-gateway/caddymodule/signcmd"    // registers card-sign
	_ "github.com/card-gateway/card-gateway/caddymodule/unitcmd"    // registers card-unit
)
