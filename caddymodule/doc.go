// Package caddymodule registers the Caddy modules of the gateway: the app
// card_gateway, its HTTP handlers and its stores. The packages below it register
// the admin API, the commands, the log format and the log output.
//
// The files, by their subjects:
//
//   - app, config: the app and its options
//   - rules: the defaults of the options: window, lock_after, limits, the shares
//     of body_budget
//   - state, stores, store_redis, upkeep, telemetry: what outlives a
//     request
//   - process: what outlives configurations
//   - policy: which options the gateways of a store compare
//   - handler_*, site, rate_limit_options, self_answers, key_limits: the handlers
//   - behind_auth: what is behind a card_auth
//   - chain, unjudged: which order of handlers is a mistake, and what a
//     request gets that no card_auth has judged
//   - caddyfile*: the syntax of the Caddyfile
//   - passage*, client_address, retired: the way of a request through card_auth,
//     with passage_admit first; passage_body chooses the largest body
//   - dry_run, drain: when a refused request passes, and how a reload ends
//   - body*: how a body is read, and who may hold how much memory
//   - header_rule, header_words: which headers reach the issuer
//   - headers, forward_request: which headers the gateway adds
//   - forward_*, send_once, response, json_body, translate_*: the issuer's side
//   - answer*, explain*, detail, refusal_details, doc_url: answers to refused
//     requests; package auth has their status and text
//   - request_id, request_info, request_report, log_detail, tracing: a request
//     in the logs, metrics and traces
//   - audit, audit_log, events: changes of keys, and the numbers of audit lines
//   - metrics, gauges, store_metrics, upstream_metrics, degraded: metrics
//   - renewals: which certificates should have been renewed
//   - app_admin, traffic, certificates, loads, node, explain_memory: what the admin
//     API and the console show
package caddymodule

import (
	_ "github.com/card-gateway/card-gateway/caddymodule/explaincmd" // registers card-explain
	_ "github.com/card-gateway/card-gateway/caddymodule/signcmd"    // registers card-sign
	_ "github.com/card-gateway/card-gateway/caddymodule/unitcmd"    // registers card-unit
)
