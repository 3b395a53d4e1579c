// The refusals that the gateway remembers.
import { h, facts, time } from "./dom.js";
import { keyLink } from "./dom.js";
import { counts, offenders } from "./overview.js";
import { read } from "./api.js";

// refusalList returns remembered refusals, each with what was wrong.
export function refusalList(list) {
	if (list.length === 0) return h("p", {}, "This gateway remembers no refusal. It keeps the last 512 that it explained, one a second for each key, until it stops.");
	return list.map((r) => h("details", { class: "refusal" },
		h("summary", {}, `${r.status} ${r.reason} `, time(r.at)),
		facts([
			["message", r.message],
			["findings", (r.findings || []).map((f) => h("div", {}, f.finding ? h("code", {}, f.finding) : null, f.finding ? ": " : null, f.message))],
			["detail", r.detail],
			["operation", r.operation],
			["key", r.key_id ? keyLink(r.key_id) : ""],
			["tenant", r.tenant],
			["client address", r.client_ip],
			["request id", h("code", {}, r.request_id)],
			["string to sign", r.string_to_sign ? h("pre", {}, r.string_to_sign) : ""],
		])));
}

export async function refusals(status) {
	const found = await read("refusals?limit=50");
	const outcomes = Object.fromEntries(Object.entries(status.traffic.outcomes || {}).filter(([name]) => name !== "accepted"));
	return [
		h("h1", {}, "Refusals"),
		counts({ caption: "Refusals by reason", head: "reason", now: outcomes, then: outcomes, none: "No request was refused since the start." }),
		offenders(status.offenders || []),
		h("h2", {}, "Last refusals"),
		refusalList(found.refusals),
	];
}
