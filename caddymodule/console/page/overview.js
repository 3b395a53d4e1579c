// The overview: the answers of GET /card-gateway/status and /card-gateway/recent.
import { h, facts, table, panel, state } from "./dom.js";
import { number, count, bytes, age, both } from "./words.js";
import { attention } from "./attention.js";
import { requestPlot, issuerPlots, offenders, counts } from "./recent.js";

export function overview(status, recent) {
	const traffic = status.traffic;
	return [
		h("h1", {}, "Overview"),
		attention(status),
		h("div", { class: "panels" },
			h("div", {},
				requestPlot(recent),
				offenders(recent),
				panel("Requests", counts({ caption: "Requests by outcome", what: "Outcome", now: traffic.outcomes, recent, none: "No request since the start." })),
				limits(traffic),
				gateway(status)),
			h("div", {},
				issuers(traffic, recent),
				store(status.store, status),
				nodes(status),
				keys(status))),
	];
}

function gateway(status) {
	return panel("Gateway", facts([
		["Ready", status.ready ? h("span", { class: "good" }, "yes") : h("span", { class: "bad" }, "no")],
		["Out of service", status.drained ? outOfService(status.drained_until) : ""],
		["Version", `${status.version} (${status.commit}), Caddy ${status.caddy}, ${status.go}`],
		["Running since", both(status.traffic.since)],
		["Configured", both(status.loads.at)],
		["Policy", h("code", {}, status.policy)],
		["Request bodies", `${bytes(status.bodies.bytes)} of ${bytes(status.bodies.limit)} of memory in use`],
		["Audit record", status.audit ? [h("code", {}, status.audit.path), `, line ${number(status.audit.seq)}`] : "in the log"],
		["Verbose log until", both(status.log_debug_until)],
	]));
}

// outOfService says how long an operator wanted to keep the gateway drained.
function outOfService(until) {
	if (!until) return "drained by an operator, who named no end";
	return ["drained by an operator until ", both(until)];
}

function store(store, status) {
	const details = store.details || {};
	const sealed = (s) => h("div", { class: s.master_key ? undefined : "bad" }, `${count(s.secrets, "secret")} under ${s.master_key ? `master key ${s.master_key}` : "a master key that was not given"}`);
	return panel("Store", facts([
		["Place", [`${store.backend} `, h("code", {}, store.place)]],
		["State", store.ready ? state("answers") : h("span", { class: "bad" }, store.problem)],
		["Replay floor", details.replay_floor ? both(details.replay_floor) : "none"],
		["Nonces", details.max_nonces ? `${number(details.nonces)} of ${number(details.max_nonces)}` : ""],
		["Sealed", status.problem ? "" : (status.sealed_by || []).map(sealed)],
	]));
}

function issuers(traffic, recent) {
	return panel("Issuers", issuerPlots(recent),
		counts({ caption: "Answers of the issuers by class", what: "Class", now: traffic.upstream, recent, none: "No issuer was asked since the start." }),
		facts(Object.entries(traffic.connections || {}).map(([issuer, n]) => [issuer, count(n, "open connection")])));
}

function keys(status) {
	if (status.problem) return panel("Keys", h("p", { class: "bad" }, `They are not counted: ${status.problem}`));
	return panel("Keys",
		facts(Object.entries(status.keys || {}).map(([name, n]) => [name[0].toUpperCase() + name.slice(1), number(n)])),
		facts([["Counted", status.counted_at ? both(status.counted_at) : ""], ["Will expire", `${number(status.expiring["1d"])} within a day, ${number(status.expiring["7d"])} within a week, ${number(status.expiring["30d"])} within 30 days`]]));
}

function nodes(status) {
	const details = status.store.details || {};
	const memory = (s) => s.max_memory ? `${bytes(s.used_memory)} of ${bytes(s.max_memory)}` : bytes(s.used_memory);
	const rows = (details.servers || []).map((s) => [s.address, s.version, number(s.replicas), memory(s)]);
	const policy = (g) => [h("code", {}, g.policy), g.policy === status.policy ? null : h("span", { class: "bad" }, " differs")];
	const others = (details.gateways || []).map((g) => [g.this ? `${g.name} (this one)` : g.name, policy(g), age(g.seen)]);
	if (rows.length + others.length === 0) return null;
	return panel("Nodes",
		table({ caption: "Redis masters", columns: [["Address", "long"], ["Version", "short"], ["Replicas", "number"], ["Memory", "number"]], rows, none: "No Redis master is known yet." }),
		table({ caption: "Gateways on this store; equal policies are equal rules", columns: [["Gateway", "long"], ["Policy", "long"], ["Seen", "short"]], rows: others, none: "No gateway has written its policy yet." }));
}

function limits(traffic) {
	const near = traffic.limits_near || {}, refused = traffic.limits_refused || {};
	const names = [...new Set([...Object.keys(near), ...Object.keys(refused)])].sort();
	return panel("Limits", table({ caption: "Requests near a limit (less than a fifth was left) and beyond it, since the start",
		columns: [["Operation", "long"], ["Near", "number"], ["Refused", "number"]], none: "No key has come near a limit since the start.",
		rows: names.map((name) => [name, number(near[name] || 0), number(refused[name] || 0)]) }));
}
