// Package caddymodule is the only package that knows Caddy. It turns the pure
// packages auth, ratelimit, translate and store into the app card_gateway, its
// HTTP handlers, a log encoder, an admin API and two commands.
package caddymodule
