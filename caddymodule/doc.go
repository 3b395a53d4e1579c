// Package caddymodule registers the Caddy modules of the gateway: the app
// card_gateway, its HTTP handlers and its stores. It imports the packages below
// it that register the admin API, the commands and the log format.
package caddymodule

import (
	_ "github.com/card-gateway/card-gateway/caddymodule/explaincmd" // registers card-explain
	_ "github.com/card-gateway/card-gateway/caddymodule/signcmd"    // registers card-sign
)
