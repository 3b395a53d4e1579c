// The overview: the answer of GET /card-gateway/status.
import { h, facts, table, keyLink, time, age } from "./dom.js";

// first is the traffic when the page was opened, to show what came since.
let first = null;

export function overview(status) {
	first ??= status.traffic;
	const store = status.store, details = store.details || {};
	return [
		h("h1", {}, "Overview"),
		h("h2", {}, "Gateway"),
		facts([
			["ready", status.ready ? h("span", { class: "good" }, "yes") : h("span", { class: "bad" }, `no: ${status.reason}`)],
			["degraded", status.degraded?.length ? h("span", { class: "bad" }, status.degraded.join(", ")) : "no"],
			["drained", status.drained ? "yes, by an operator" : ""],
			["version", `${status.version} (${status.commit}), Caddy ${status.caddy}, ${status.go}`],
			["running since", time(status.traffic.since)],
			["configuration of", time(status.loads.at)],
			["last refused one", status.loads.refused_at ? [time(status.loads.refused_at), ": ", status.loads.refusal] : ""],
			["policy", h("code", {}, status.policy)],
			["request bodies", `${status.bodies.bytes} of ${status.bodies.limit} bytes`],
			["audit record", status.audit ? `${status.audit.path}, line ${status.audit.seq} ${status.audit.trouble || ""}` : ""],
		]),
		h("h2", {}, "Store"),
		facts([
			["store", `${store.backend} ${store.place}`],
			["state", store.ready ? h("span", { class: "good" }, "answers") : h("span", { class: "bad" }, store.problem)],
			["replay floor", details.replay_floor ? time(details.replay_floor) : "none"],
			["nonces", details.max_nonces ? `${details.nonces} of ${details.max_nonces}` : ""],
			["warnings", (details.warnings || []).map((text) => h("div", {}, text))],
			["secrets sealed", (status.sealed_by || []).map((s) => h("div", { class: s.master_key ? undefined : "bad" }, s.master_key ? `${s.secrets} under master key ${s.master_key}` : `${s.secrets} under a master key that was not given`))],
		]),
		nodes(details),
		h("h2", {}, "Keys"),
		status.problem ? h("p", { class: "bad" }, status.problem) : facts([
			...Object.entries(status.keys || {}).map(([name, n]) => [name, String(n)]),
			["expire soon", `${status.expiring["1d"]} within a day, ${status.expiring["7d"]} within a week, ${status.expiring["30d"]} within 30 days`],
		]),
		h("h2", {}, "Issuers"),
		counts({ caption: "Answers of the issuers by class", head: "class", now: status.traffic.upstream, then: first.upstream, none: "No issuer was asked since the start." }),
		facts(Object.entries(status.traffic.connections || {}).map(([issuer, n]) => [issuer, `${n} open connections`])),
		h("h2", {}, "Requests"),
		counts({ caption: "Requests by outcome", head: "outcome", now: status.traffic.outcomes, then: first.outcomes, none: "No request since the start." }),
		h("h2", {}, "Limits"),
		limits(status.traffic),
		offenders(status.offenders || []),
		h("h2", {}, "Certificates"),
		table({ caption: "Certificates of the sites", head: ["site", "expires", "", "issuer"], none: "No site here has a name and TLS.",
			rows: (status.certificates || []).map((c) => [c.name, time(c.expires), age(c.expires), c.issuer]) }),
	];
}

function nodes(details) {
	const rows = (details.servers || []).map((s) => [s.address, s.version, String(s.replicas), s.max_memory ? `${s.used_memory} of ${s.max_memory}` : String(s.used_memory)]);
	const others = (details.gateways || []).map((g) => [g.this ? `${g.name} (this one)` : g.name, h("code", {}, g.policy), time(g.seen)]);
	if (rows.length + others.length === 0) return [];
	return [
		h("h2", {}, "Nodes"),
		table({ caption: "Redis masters", head: ["address", "version", "replicas", "bytes of memory"], rows, none: "No Redis master is known yet." }),
		table({ caption: "Gateways on this store; equal policies are equal rules", head: ["gateway", "policy", "seen"], rows: others, none: "No gateway has written its policy yet." }),
	];
}

// counts returns a table of counters: since the start, and since the page was opened.
export function counts({ caption, head, now, then, none }) {
	const rows = Object.entries(now || {}).sort((a, b) => b[1] - a[1]);
	return table({ caption, head: [head, "since the start", "since this page was opened"], none,
		rows: rows.map(([name, n]) => [name, String(n), String(n - (then?.[name] || 0))]) });
}

function limits(traffic) {
	const near = traffic.limits_near || {}, refused = traffic.limits_refused || {};
	const names = [...new Set([...Object.keys(near), ...Object.keys(refused)])].sort();
	return table({ caption: "Operations near a limit", head: ["operation", "less than a fifth left", "refused"], none: "No key has come near a limit since the start.",
		rows: names.map((name) => [name, String(near[name] || 0), String(refused[name] || 0)]) });
}

export function offenders(list) {
	return [
		h("h2", {}, "Keys refused most"),
		table({ caption: "Refusals of the last five minutes", head: ["key", "tenant", "refused", "last reason"], none: "No key was refused in the last five minutes.",
			rows: list.map((o) => [keyLink(o.key_id), o.tenant, String(o.refused), o.reason]) }),
	];
}
