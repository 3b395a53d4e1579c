// The page of one key.
import { h, facts, table, time, age } from "./dom.js";
import { call, read, keyPath } from "./api.js";
import { refusalList } from "./refusals.js";
import { ask, askFor, showSecret } from "./dialog.js";

// part runs one of the reads of the page. Where it fails, the rest is shown.
async function part(reading, show) {
	try {
		return show(await reading);
	} catch (failure) {
		if (failure.wantsToken) throw failure;
		return h("p", { class: "bad" }, failure.message);
	}
}

export async function key(id, { may, report, again }) {
	const about = part(read(keyPath(id)), (k) => [describe(k), may ? actions(k, { report, again }) : null].filter(Boolean));
	const limits = part(read(`${keyPath(id)}/limits`), (found) => limitTable(found.limits));
	const refused = part(read(`refusals?limit=20&key=${encodeURIComponent(id)}`), (found) => refusalList(found.refusals));
	return [
		h("h1", {}, "Key ", h("code", {}, id)),
		...[await about].flat(),
		h("h2", {}, "Limits"), await limits,
		h("h2", {}, "Last refusals"), ...[await refused].flat(),
	];
}

function describe(k) {
	return h("div", {},
		facts([
			["status", h("span", { class: k.status === "active" ? "good" : "bad" }, k.status)],
			["lock", k.lock ? JSON.stringify(k.lock) : ""],
			["tenant", k.tenant], ["description", k.description], ["mode", k.mode],
			["scopes", k.scopes.join(" ")],
			["allowed addresses", k.allowed_ips ? k.allowed_ips.join(", ") : "any"],
			["customer variant", k.customer_variant],
			["limits of its own", Object.keys(k.limits || {}).length ? JSON.stringify(k.limits) : ""],
			["expires", time(k.expires_at) || "never"],
			["shows what was wrong until", time(k.debug_until)],
			["consecutive failures", String(k.failures)],
			["imported", k.imported ? "yes" : ""],
			["made", time(k.created_at)], ["changed", time(k.updated_at)],
		]),
		h("h2", {}, "Secrets"),
		table({ caption: "Live secrets, the newest first", head: ["version", "made", "ends", "last used"], none: "No secret is live.",
			rows: k.secrets.map((s) => [String(s.version), age(s.created_at), s.expires_at ? age(s.expires_at) : "with the key", age(s.last_used_at)]) }));
}

// limitTable shows the buckets with the most used ones first, the untouched ones
// apart.
function limitTable(limits) {
	const used = limits.filter((l) => l.remaining < l.limit).sort((a, b) => a.remaining / a.limit - b.remaining / b.limit);
	const rows = (list) => list.map((l) => [l.bucket, l.rate, `${l.limit - l.remaining} of ${l.limit}`,
		h("meter", { min: "0", max: String(l.limit), high: String(l.limit * 0.8), value: String(l.limit - l.remaining), "aria-label": `used of ${l.bucket}` }),
		l.remaining < l.limit ? time(new Date(l.reset * 1000).toISOString()) : ""]);
	const head = ["bucket", "rate", "used", "", "full again"];
	return h("div", {},
		table({ caption: "Used limits", head, rows: rows(used), none: "No limit of this key is used now." }),
		h("details", {}, h("summary", {}, "All limits"), table({ caption: "All limits", head, rows: rows(limits), none: "The key has no scope of an operation." })));
}

function actions(k, { report, again }) {
	const change = (label, how) => h("button", { type: "button", onclick: async () => {
		try {
			if (await how() !== false) await again();
		} catch (failure) {
			report(failure);
		}
	} }, label);
	const post = (name, body) => call("POST", `${keyPath(k.id)}/${name}`, body);
	const disable = change("Disable", async () => {
		if (!await ask({ title: "Disable the key?", text: `Every further request with ${k.id} of ${k.tenant} is refused.`, yes: "Disable" })) return false;
		await post("disable");
	});
	const rotate = change("Rotate", async () => {
		const overlap = await askFor({ title: "Make a new secret?", text: "The old secret lives on for a time, so that the holder can change over.", label: "For how long", value: "24h", yes: "Make it" });
		if (overlap === null) return false;
		await showSecret(await post("rotate", { overlap: overlap.trim() }));
	});
	return h("div", { class: "actions", role: "group", "aria-label": "Changes" }, rotate,
		k.disabled ? change("Enable", () => post("enable")) : disable,
		k.lock || k.failures > 0 ? change("Unlock", () => post("unlock")) : null);
}
