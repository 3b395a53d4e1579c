package main

// processRow shows what the processes need, and what fires.
var processRow = row{"Alerts and processes", []panel{
	{
		kind: graph, title: "Firing alerts", unit: count,
		good:    "Good: empty; the links above lead to the runbook of each alert.",
		queries: []query{q(`count by (alertname, severity) (ALERTS{alertname=~"CardGateway.+",alertstate="firing"}) or vector(0)`, "{{alertname}} {{severity}}")},
	},
	{
		kind: graph, title: "CPU", unit: count,
		good:    "Good: well below the number of CPUs; near it, requests wait.",
		queries: []query{q(`rate(process_cpu_seconds_total{@}[$t])`, "{{instance}}")},
	},
	{
		kind: graph, title: "Memory", unit: bytes,
		good:    "Good: level after five minutes of traffic; body_budget and answer_budget bound what requests add.",
		queries: []query{q(`process_resident_memory_bytes{@}`, "{{instance}}"), q(`go_memstats_heap_inuse_bytes{@}`, "heap {{instance}}")},
	},
	{
		kind: graph, title: "Open files", unit: count,
		good:    "Good: follows the number of clients; far below LimitNOFILE.",
		queries: []query{q(`process_open_fds{@}`, "{{instance}}")},
	},
}}
