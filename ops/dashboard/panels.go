package main

var rows = []row{
	{"Is it us, a client or the issuer?", []panel{
		{
			kind: stat, title: "Us: gateways not ready", unit: count, bad: 1,
			good:    "Good: 0. One that is down, out of reach or without its store counts; the others do its work.",
			queries: []query{q(`count(up{@} and on (job) last_over_time(card_gateway_store_up{@}[1d])) - (sum(card_gateway_store_up{@}) or vector(0))`, "not ready")},
		},
		{
			kind: stat, title: "Us: answered 500 or 503", unit: share, bad: 0.01,
			good:    "Good: 0. The store, the room for bodies and connections, the replay floor, or a fault of the gateway; the issuer was not asked.",
			queries: []query{q(`sum(rate(card_gateway_requests_total{@,outcome=~"store_unavailable|over_budget|internal_error|replay_floor"}[$t])) / sum(rate(card_gateway_requests_total{@}[$t]))`, "ours")},
		},
		{
			kind: stat, title: "Us: overhead, 99th percentile", unit: duration, bad: 0.01,
			good:    "Good: under 10 ms; on the embedded store far under 1 ms.",
			queries: []query{q(`histogram_quantile(0.99, sum by (le) (rate(card_gateway_overhead_seconds_bucket{@}[$t])))`, "p99")},
		},
		{
			kind: stat, title: "Clients: refused", unit: share, bad: 0.1,
			good:    "Good: a few percent, steady; it says that clients sign correctly.",
			queries: []query{q(`sum(rate(card_gateway_requests_total{@,outcome!~"accepted|would_refuse_.+|upstream_error|upstream_timeout|store_unavailable|over_budget|internal_error|replay_floor"}[$t])) / sum(rate(card_gateway_requests_total{@}[$t]))`, "refused")},
		},
		{
			kind: stat, title: "Issuer: fails", unit: share, bad: 0.01,
			good:    "Good: under 1% of what reaches the issuer ends in 502 or 504, or is its own 5xx.",
			queries: []query{q(`sum(rate(card_gateway_upstream_responses_total{@,class=~"5xx|error|timeout"}[$t])) / sum(rate(card_gateway_upstream_responses_total{@}[$t]))`, "failed")},
		},
		{
			kind: stat, title: "Issuer: refuses us", unit: share, bad: 0.5,
			good:    "Good: the few 401, 403 and 429 that clients cause; near one, it is the gateway that the issuer refuses. Empty without card_forward.",
			queries: []query{q(`sum(rate(card_gateway_upstream_issuer_responses_total{@,class=~"401|403|429"}[$t])) / sum(rate(card_gateway_upstream_issuer_responses_total{@}[$t]))`, "refuses")},
		},
		{
			kind: stat, title: "Issuer: slower than 1 s", unit: share, bad: 0.1,
			good:    "Good: under a tenth; the clients wait for these answers.",
			queries: []query{q(`1 - sum(rate(card_gateway_upstream_seconds_bucket{@,le=~"1(\\.0)?"}[$t])) / sum(rate(card_gateway_upstream_seconds_count{@}[$t]))`, "slow")},
		},
		{
			kind: stat, title: "Issuer: out", unit: count, bad: 1,
			good:    "Good: 0 addresses. While one is out, the others do its work.",
			queries: []query{q(`count(max by (issuer) (card_gateway_upstream_out{@}) > 0) or vector(0)`, "out")},
		},
	}},
	{"At a glance", []panel{
		{
			kind: stat, title: "Accepted", unit: perSec,
			good:    "Good: the usual traffic for this time of day.",
			queries: []query{q(`sum(rate(card_gateway_requests_total{@,outcome="accepted"}[$t]))`, "accepted")},
		},
		{
			kind: stat, title: "Keys locked", unit: count, bad: 1,
			good:    "Good: 0; every locked key is a client that is shut out.",
			queries: []query{q(`max(card_gateway_keys{@,status="locked"})`, "locked")},
		},
		{
			kind: stat, title: "Keys expiring in 7 days", unit: count, bad: 1,
			good:    "Good: 0, or keys whose end is wanted.",
			queries: []query{q(`max(card_gateway_keys_expiring{@,within="7d"})`, "expiring")},
		},
		{
			kind: stat, title: "In dry run", unit: count, bad: 1,
			good:    "Good: 0; anything else means that card_auth protects nothing.",
			queries: []query{q(`max(card_gateway_dry_run{@})`, "handlers")},
		},
	}},
	{"Traffic and refusals", []panel{
		{
			kind: graph, title: "Accepted by operation", unit: perSec, stacked: true,
			good:    "Good: the shape of yesterday; no operation falls to zero by itself.",
			queries: []query{q(`sum by (operation) (rate(card_gateway_requests_total{@,outcome="accepted"}[$t])) > 0`, "{{operation}}")},
		},
		{
			kind: graph, title: "Refusals by reason", unit: perSec, stacked: true, good: "Good: low and level; one colour that grows is one cause, see the runbook refusals-above-usual.",
			queries: []query{q(`sum by (outcome) (rate(card_gateway_requests_total{@,outcome!~"accepted|would_refuse_.+"}[$t])) > 0`, "{{outcome}}")},
		},
		{
			kind: graph, title: "Refused share by operation", unit: share,
			good:    "Good: alike for all operations; one that stands out has a client that calls it wrongly.",
			queries: []query{q(`sum by (operation) (rate(card_gateway_requests_total{@,outcome!~"accepted|would_refuse_.+"}[$t])) / (sum by (operation) (rate(card_gateway_requests_total{@}[$t])) > 0)`, "{{operation}}")},
		},
		{
			kind: graph, title: "Explained refusals", unit: perSec, good: "Good: given, and little skipped; skipped grows with a flood of bad requests, which are refused all the same.",
			queries: []query{q(`sum by (result) (rate(card_gateway_explanations_total{@}[$t]))`, "{{result}}")},
		},
	}},
	{"Issuer", []panel{
		{
			kind: graph, title: "Answers of the issuer", unit: perSec, stacked: true,
			good:    "Good: 2xx, and a few 4xx; error and timeout are 502 and 504 of the gateway, see the runbook upstream-errors.",
			queries: []query{q(`sum by (class) (rate(card_gateway_upstream_responses_total{@}[$t])) > 0`, "{{class}}")},
		},
		{
			kind: graph, title: "Time to the issuer's answer, 99th percentile", unit: duration,
			good:    "Good: level, and far below answer_timeout; clients wait that long.",
			queries: []query{q(`histogram_quantile(0.99, sum by (le, operation) (rate(card_gateway_upstream_seconds_bucket{@}[$t])))`, "{{operation}}")},
		},
	}},
	{"Issuer by issuer", []panel{
		{
			kind: graph, title: "Answers by issuer", unit: perSec, stacked: true,
			good:    "Good: alike for all issuers. One with 5xx, error or timeout: the runbook one-issuer; 401, 403 or 429 alone: issuer-refuses.",
			queries: []query{q(`sum by (issuer, class) (rate(card_gateway_upstream_issuer_responses_total{@}[$t])) > 0`, "{{issuer}} {{class}}")},
		},
		{
			kind: graph, title: "Time to an answer by issuer, 90th percentile", unit: duration,
			good:    "Good: alike for all issuers. The buckets are wide: 0.1, 0.5, 1 and 5 s.",
			queries: []query{q(`histogram_quantile(0.9, sum by (le, issuer) (rate(card_gateway_upstream_issuer_seconds_bucket{@}[$t])))`, "{{issuer}}")},
		},
		{
			kind: graph, title: "In flight and connections", unit: count,
			good: "Good: level with the traffic, below max_connections, and spread over the issuers.",
			queries: []query{
				q(`sum by (issuer) (card_gateway_upstream_in_flight_requests{@})`, "in flight {{issuer}}"),
				q(`sum by (issuer) (card_gateway_upstream_connections{@})`, "connections {{issuer}}"),
			},
		},
		{
			kind: graph, title: "Share of the time that an issuer is out", unit: share,
			good:    "Good: zero.",
			queries: []query{q(`max by (issuer) (rate(card_gateway_upstream_out_seconds_total{@}[$t]))`, "{{issuer}}")},
		},
	}},
	{"Keys and clocks", []panel{
		{
			kind: graph, title: "Memory for bodies", unit: share, good: "Good: far below one; at one, bodies are refused with over_budget, and the log names who holds the memory.",
			queries: []query{q(`max by (instance) (card_gateway_body_bytes{@} / card_gateway_body_bytes_limit{@})`, "{{instance}}")},
		},
		{
			kind: graph, title: "Calls that wait for Redis", unit: count, good: "Good: at zero; a queue that stays is a Redis that is too slow for the load.",
			queries: []query{q(`max by (instance) (card_gateway_store_queue{@})`, "{{instance}}")},
		},
		{
			kind: graph, title: "Signs of attack", unit: perSec,
			good: "Good: near zero; unknown keys are scanning, used nonces are replays, signatures are guesses.",
			queries: []query{q(`sum by (outcome) (rate(card_gateway_requests_total{@,outcome=~"unknown_key|replayed_nonce|signature_mismatch|ip_not_allowed|key_locked"}[$t]))`,
				"{{outcome}}"), q(`sum(rate(card_gateway_repeated_requests_total{@}[$t]))`, "of the replays: rightly signed")},
		},
		{
			kind: graph, title: "Headers of clients that do not reach the issuer", unit: perSec,
			good:    "Good: steady. A rise after an upgrade or a new client: a debug line names them, pass_header lets them pass.",
			queries: []query{q(`sum(rate(card_gateway_dropped_headers_total{@}[$t]))`, "a second")},
		},
		{
			kind: graph, title: "Locks and keys by status", unit: count,
			good: "Good: no new locks, none locked, no failures that did not count; the others change only when somebody changes keys.",
			queries: []query{
				q(`sum(increase(card_gateway_key_locks_total{@}[1h]))`, "locks in an hour"),
				q(`sum(increase(card_gateway_uncounted_failures_total{@}[1h]))`, "failures that did not count, in an hour"),
				q(`max by (status) (card_gateway_keys{@,status!="active"})`, "{{status}}"),
				q(`max by (within) (card_gateway_keys_expiring{@})`, "expiring within {{within}}"),
			},
		},
		{
			kind: graph, title: "Seals of keys", unit: count,
			good: "Good: none refused, and none without a seal once all were sealed.",
			queries: []query{
				q(`max by (state) (card_gateway_key_seals{@,state!="sealed"})`, "{{state}}"),
				q(`sum(increase(card_gateway_forged_records_total{@}[10m]))`, "forged"),
			},
		},
		{
			kind: graph, title: "First certificate to end", unit: duration,
			good:    "Good: never near zero, with a jump up at each renewal. Empty where no certificate is loaded, and TLS ends before the gateway.",
			queries: []query{q(`min by (instance, use) (card_gateway_certificate_end_timestamp_seconds{@} - time())`, "{{use}} {{instance}}")},
		},
		{
			kind: graph, title: "Certificates overdue", unit: count,
			good:    "Good: zero; anything else was not renewed in time, see the runbook certificate-overdue.",
			queries: []query{q(`max by (instance, use) (card_gateway_certificates_overdue{@})`, "{{use}} {{instance}}")},
		},
		{
			kind: graph, title: "Clock skew of clients", unit: duration, signed: true,
			good: "Good: all lines within a few seconds of zero; above zero clients are behind, below ahead, at 300 s they are refused.",
			queries: []query{
				q(`histogram_quantile(0.01, sum by (le) (rate(card_gateway_clock_skew_seconds_bucket{@}[$t])))`, "p1"),
				q(`histogram_quantile(0.5, sum by (le) (rate(card_gateway_clock_skew_seconds_bucket{@}[$t])))`, "p50"),
				q(`histogram_quantile(0.99, sum by (le) (rate(card_gateway_clock_skew_seconds_bucket{@}[$t])))`, "p99"),
			},
		},
	}},
	{"What it costs", []panel{
		{
			kind: graph, title: "Overhead", unit: duration,
			good: "Good: flat; p99 under 10 ms. The issuer's time is left out.",
			queries: []query{
				q(`histogram_quantile(0.5, sum by (le) (rate(card_gateway_overhead_seconds_bucket{@}[$t])))`, "p50"),
				q(`histogram_quantile(0.95, sum by (le) (rate(card_gateway_overhead_seconds_bucket{@}[$t])))`, "p95"),
				q(`histogram_quantile(0.99, sum by (le) (rate(card_gateway_overhead_seconds_bucket{@}[$t])))`, "p99"),
			},
		},
		{
			kind: graph, title: "Overhead by instance, 99th percentile", unit: duration,
			good:    "Good: the same on every instance; one that stands out has a machine or a network of its own to blame.",
			queries: []query{q(`histogram_quantile(0.99, sum by (le, instance) (rate(card_gateway_overhead_seconds_bucket{@}[$t])))`, "{{instance}}")},
		},
		{
			kind: heat, title: "Overhead, all requests", unit: duration,
			good:    "Good: one narrow band; a second band is a second kind of request, such as one whose key was not cached.",
			queries: []query{q(`sum by (le) (increase(card_gateway_overhead_seconds_bucket{@}[$t]))`, "{{le}}")},
		},
	}},
	{"Store", []panel{
		{
			kind: graph, title: "Settling a request", unit: duration,
			good: "Good: microseconds on the embedded store, one network round trip on Redis; p99 under 5 ms.",
			queries: []query{
				q(`histogram_quantile(0.5, sum by (le) (rate(card_gateway_store_seconds_bucket{@,call="settle"}[$t])))`, "p50"),
				q(`histogram_quantile(0.95, sum by (le) (rate(card_gateway_store_seconds_bucket{@,call="settle"}[$t])))`, "p95"),
				q(`histogram_quantile(0.99, sum by (le) (rate(card_gateway_store_seconds_bucket{@,call="settle"}[$t])))`, "p99"),
			},
		},
		{
			kind: graph, title: "Calls", unit: perSec,
			good:    "Good: about one settle for each signed request and few of the others.",
			queries: []query{q(`sum by (call) (rate(card_gateway_store_seconds_count{@}[$t]))`, "{{call}}")},
		},
		{
			kind: graph, title: "Up, and failing calls", unit: count,
			good:    "Good: every instance at 1 and no failing call.",
			queries: []query{q(`card_gateway_store_up{@}`, "up {{instance}}"), q(`sum by (call) (rate(card_gateway_store_seconds_count{@,result="error"}[$t]))`, "failing {{call}}/s")},
		},
		{
			kind: graph, title: "Degraded, and lost log lines", unit: count,
			good:    "Good: empty. Requests are settled all the same; the runbooks degraded and log-dropped say what to do.",
			queries: []query{q(`card_gateway_degraded{@}`, "{{what}} {{instance}}"), q(`sum by (instance) (increase(card_gateway_log_dropped_total{@}[$t]))`, "lost lines {{instance}}")},
		},
		{
			kind: graph, title: "Replay floor", unit: duration, signed: true,
			good:    "Good: empty, or far below zero; above zero, requests are refused as replay_floor for that long.",
			queries: []query{q(`clamp_min(card_gateway_replay_floor_seconds{@} - time(), 0)`, "{{instance}}")},
		},
		{
			kind: graph, title: "Gateways by version", unit: count,
			good:    "Good: one version, or two during a roll-out.",
			queries: []query{q(`count by (version, commit) (card_gateway_build_info{@})`, "{{version}} {{commit}}")},
		},
	}},
	{"Rate limits", []panel{
		{
			kind: graph, title: "Decisions", unit: perSec, stacked: true,
			good:    "Good: allowed nearly all the way up; near is a warning, refused is a client waiting.",
			queries: []query{q(`sum by (decision) (rate(card_gateway_rate_limit_decisions_total{@}[$t]))`, "{{decision}}")},
		},
		{
			kind: graph, title: "Near exhaustion by operation", unit: share,
			good:    "Good: a few percent; an operation that stays high has a limit too tight or a client too eager.",
			queries: []query{q(`sum by (operation) (rate(card_gateway_rate_limit_decisions_total{@,decision="near"}[$t])) / (sum by (operation) (rate(card_gateway_rate_limit_decisions_total{@}[$t])) > 0)`, "{{operation}}")},
		},
		{
			kind: graph, title: "Refused by operation", unit: perSec, stacked: true,
			good:    "Good: nothing, or the one client that you expect; would_refuse counts only in dry run.",
			queries: []query{q(`sum by (operation, decision) (rate(card_gateway_rate_limit_decisions_total{@,decision=~"refused|would_refuse"}[$t])) > 0`, "{{operation}} {{decision}}")},
		},
	}},
	translationRow,
	processRow,
}
