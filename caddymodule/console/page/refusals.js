// The refusals that the gateway remembers.
import { h, facts, panel, keyLink } from "./dom.js";
import { time, age } from "./words.js";
import { counts, offenders } from "./recent.js";
import { read } from "./api.js";

// refusalList returns remembered refusals, each with what was wrong.
export function refusalList(list, none) {
	if (list.length === 0) return h("p", { class: "dim" }, `${none} A gateway keeps the last 512 that it explained, one a second for each key, until it stops.`);
	return list.map((r) => h("details", { class: "refusal" },
		h("summary", {}, `${r.status} ${r.reason} `, h("span", { class: "dim" }, age(r.at), r.key_id ? `, ${r.key_id}` : null)),
		facts([
			["At", time(r.at)],
			["Message", r.message],
			["Findings", (r.findings || []).map((f) => h("div", {}, f.finding ? h("code", {}, f.finding) : null, f.finding ? ": " : null, f.message))],
			["Detail", r.detail],
			["Operation", r.operation],
			["Key", r.key_id ? keyLink(r.key_id) : ""],
			["Tenant", r.tenant],
			["Client address", r.client_ip],
			["Request id", h("code", {}, r.request_id)],
			["String to sign", r.string_to_sign ? h("pre", {}, r.string_to_sign) : ""],
		])));
}

export async function refusals(status, recent) {
	const found = await read("refusals?limit=50");
	const refused = (outcomes) => Object.fromEntries(Object.entries(outcomes || {}).filter(([name]) => name !== "accepted"));
	return [
		h("h1", {}, "Refusals"),
		h("div", { class: "panels" },
			panel("Reasons", counts({ caption: "Requests by reason of the refusal", what: "Reason", now: refused(status.traffic.outcomes), recent, none: "No request was refused since the start." })),
			offenders(recent)),
		panel("Last refusals", refusalList(found.refusals, "This gateway remembers no refusal.")),
	];
}
