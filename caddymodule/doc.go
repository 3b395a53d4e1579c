// Package caddymodule makes Caddy modules of the gateway: the app card_gateway,
// its HTTP handlers and its stores. The admin API, the commands and the log
// format are packages below it, which it registers too.
package caddymodule

import (
	_ "github.com/card-gateway/card-gateway/caddymodule/signcmd" // registers card-sign
)
