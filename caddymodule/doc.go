// Package caddymodule registers the Caddy modules of the gateway: the app
// card_gateway, its HTTP handlers and its stores.
//
// Begin with auth, which every request enters, then passage, which lets package gate
// decide and tells the others. The files, by their subjects:
//
//   - app, state, telemetry, upkeep: the app, what its requests share, what it reports,
//     and its background work
//   - auth, passage, explain, assert: card_auth, and card_jwks, which publishes the keys
//     of assertions
//   - rate_limit, refuse, health: a small handler each
//   - chain: which order of handlers is a mistake, and what is behind a card_auth
//   - caddyfile: the directives and their order
//   - app_admin: what the admin API and the console show
//
// The packages below are the larger handlers (issuer, translating, self, console), and what the
// handlers have in common (request, meter, audit, settings, stores, node); admin is the
// admin API, cardlog and logqueue are the format and the output of logs.
package caddymodule
