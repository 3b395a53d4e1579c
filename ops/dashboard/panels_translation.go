package main

// translationRow shows what is translated, and answers that are not the issuer's.
var translationRow = row{"Translation and issuer", []panel{
	{
		kind: graph, title: "Translations", unit: perSec, stacked: true,
		good:    "Good: requests and answers in the same number; unchanged means that a body was in the issuer's form already.",
		queries: []query{q(`sum by (variant, direction) (rate(card_gateway_translations_total{@,result=~"ok|unchanged"}[$t])) > 0`, "{{variant}} {{direction}}")},
	},
	{
		kind: graph, title: "Translations that fail", unit: perSec,
		good:    "Good: failed at zero; invalid counts bodies that break the published rules and got 422.",
		queries: []query{q(`sum by (variant, direction, result) (rate(card_gateway_translations_total{@,result=~"invalid|failed"}[$t]))`, "{{variant}} {{direction}} {{result}}")},
	},
	{
		kind: graph, title: "Signed answers", unit: perSec, stacked: true,
		good:    "Good: unsigned at zero, or the streams that you know; empty without sign_responses.",
		queries: []query{q(`sum by (result) (rate(card_gateway_signed_answers_total{@}[$t]))`, "{{result}}")},
	},
	{
		kind: graph, title: "Issuer out of reach", unit: perSec, stacked: true,
		good:    "Good: zero; errors that the issuer answers itself pass through and are not counted here.",
		queries: []query{q(`sum by (outcome) (rate(card_gateway_requests_total{@,outcome=~"upstream_error|upstream_timeout|client_gone"}[$t]))`, "{{outcome}}")},
	},
}}
