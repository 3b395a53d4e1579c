// Package cardgateway registers all Caddy modules of Card Gateway, by importing
// package caddymodule. It has no code of its own: it exists because xcaddy
// imports the root package of a module.
package cardgateway

import _ "github.com/card-gateway/card-gateway/caddymodule"
