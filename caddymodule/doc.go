// Package caddymodule registers the Caddy modules of the gateway: the app
// card_gateway, its HTTP handlers and its stores. The packages below it register
// the admin API, the log format and the log output.
//
// Begin with handler_auth, which every request enters, and passage, which decides
// about it. The files, by their subjects:
//
//   - app, config, caddyfile, caddyfile_app: the app, its options with their
//     defaults, and the syntax of the Caddyfile
//   - process, state, stores, store_*, drain*: what outlives a configuration or a
//     request, and how a reload ends
//   - policy: which options the gateways of a store compare
//   - handler_*: a handler each, with its options; the directive of card_forward
//   - chain: which order of handlers is a mistake, and what is behind a card_auth
//   - passage, client: the way of a request through card_auth; its address and Host
//   - assert, response, signed_answer, translate_answer: what the issuer is told, and
//     what becomes of its answer
//   - answer*, explain: answers to refused requests; package auth has their status
//     and text
//   - request, spans, telemetry, metrics, degraded: a request in logs, metrics and
//     traces
//   - audit: the audit record
//   - upkeep, certificates, admin_socket*: background work
//   - app_admin: what the admin API and the console show
package caddymodule
