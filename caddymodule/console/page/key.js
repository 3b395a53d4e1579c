// The page of one key.
import { h, facts, table, panel, state } from "./dom.js";
import { number, count, time, age, use, both } from "./words.js";
import { call, read, keyPath } from "./api.js";
import { refusalList } from "./refusals.js";
import { ask, showSecret } from "./dialog.js";

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
	const title = h("h1", {}, "Key ", h("code", {}, id));
	const limits = part(read(`${keyPath(id)}/limits`), (found) => limitTable(found.limits));
	const refused = part(read(`refusals?limit=20&key=${encodeURIComponent(id)}`), (found) => refusalList(found.refusals, "This gateway remembers no refusal of this key."));
	const trail = part(read(`audit?limit=20&key=${encodeURIComponent(id)}`).catch((failure) => {
		if (failure.status === 404) return { none: failure.message };
		throw failure;
	}), trailTable);
	let missing = false;
	const about = await part(read(keyPath(id)).catch((failure) => {
		missing = failure.status === 404;
		throw failure;
	}), (k) => [panel("Record", describe(k), may && k.status !== "unreadable" ? actions(k, { report, again }) : null), panel("Secrets", secrets(k))]);
	const [record, live] = [about].flat();
	if (missing) return [title, about, h("p", {}, h("a", { href: "#/keys" }, "All keys"))];
	return [
		title,
		h("div", { class: "panels" }, record, h("div", {}, live, panel("Limits", await limits))),
		panel("Last refusals", await refused),
		panel("Audit record", await trail),
	];
}

// lockText says since when and for how long a key is locked.
function lockText(lock) {
	if (!lock) return "";
	const until = lock.until ? [", until ", time(lock.until)] : ", until an operator unlocks it";
	return [time(lock.at), `, after ${count(lock.failures, "failure")} in a row`, until];
}

// rateText returns a limit of the key's own as an operator writes it.
const rateText = (rate) => typeof rate === "string" ? rate : JSON.stringify(rate);

function describe(k) {
	return facts([
		["Status", state(k.status)],
		["Refused", k.seal?.problem && `${k.seal.field}: ${k.seal.problem}`],
		["Locked", lockText(k.lock)],
		["Tenant", k.tenant], ["Description", k.description],
		["Mode", k.imported ? `${k.mode}, imported` : k.mode],
		["Scopes", k.scopes.join(" ")],
		["Allowed addresses", k.allowed_ips ? k.allowed_ips.map((ip) => h("div", {}, ip)) : "any"],
		["Customer variant", k.customer_variant],
		["Limits of its own", Object.entries(k.limits || {}).map(([bucket, rate]) => h("div", {}, `${bucket} ${rateText(rate)}`))],
		["Expires", both(k.expires_at) || "never"],
		["Shows what was wrong until", both(k.debug_until)],
		["Failures in a row", number(k.failures)],
		...(k.status === "unreadable" ? [] : [["Made", both(k.created_at)], ["Changed", both(k.updated_at)]]),
	]);
}

function secrets(k) {
	return table({ caption: "Live secrets, the newest first", none: "No secret is live.",
		columns: [["Version", "short"], ["Made", "long"], ["Ends", "long"], ["Last used", "short"]],
		rows: k.secrets.map((s) => [number(s.version), both(s.created_at), s.expires_at ? both(s.expires_at) : "with the key", use(s.last_used_at)]) });
}

// limitTable shows the buckets with the most used ones first, the untouched ones
// apart.
function limitTable(limits) {
	const used = limits.filter((l) => l.remaining < l.limit).sort((a, b) => a.remaining / a.limit - b.remaining / b.limit);
	const rows = (list) => list.map((l) => [l.bucket, l.rate, `${number(l.limit - l.remaining)} of ${number(l.limit)}`,
		h("meter", { min: "0", max: String(l.limit), high: String(l.limit * 0.8), value: String(l.limit - l.remaining), "aria-label": `used of ${l.bucket}` }),
		l.remaining < l.limit ? age(new Date(l.reset * 1000).toISOString()) : ""]);
	const columns = [["Bucket", "long"], ["Rate", "short"], ["Used", "number"], ["Share", "short"], ["Full again", "short"]];
	return [
		table({ caption: "Used limits", columns, rows: rows(used), none: "No limit of this key is used now." }),
		h("details", {}, h("summary", {}, "All limits"), table({ caption: "All limits", columns, rows: rows(limits), none: "The key has no scope of an operation." })),
	];
}

// trailTable shows the lines of the audit record that name the key.
function trailTable({ path, lines, from, none }) {
	if (none) return h("p", { class: "dim" }, none);
	const text = (value) => value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value);
	const changes = (line) => Object.entries(line.changes || {}).map(([field, c]) => h("div", {}, `${field}: ${text(c.old)} → ${text(c.new)}`));
	const result = (line) => line.result === "ok" ? "ok" : h("span", { class: "bad" }, [line.result, line.status, line.error].filter(Boolean).join(" "));
	return [
		table({ caption: "The last 20 lines that name the key", none: "No line that was searched names the key.",
			columns: [["At", "short"], ["Action", "short"], ["By", "long"], ["Changes", "long"], ["Result", "long"]],
			rows: lines.map((line) => [time(line.at), line.action, line.claimed ? `${line.actor}, who says: ${line.claimed}` : line.actor, changes(line), result(line)]) }),
		h("p", { class: "dim" }, "In ", h("code", {}, path), from > 1 ? ` from line ${number(from)} on: older ones are further up in it, or in files that were rotated.` : " from its first line on."),
	];
}

function actions(k, { report, again }) {
	const post = (name, body) => call("POST", `${keyPath(k.id)}/${name}`, body);
	const change = (name, label, how, kind) => h("button", { type: "button", class: kind, "data-change": name, onclick: async () => {
		try {
			if (await how() !== null) await again();
		} catch (failure) {
			report(failure);
		}
	} }, label);
	const disable = () => ask({ title: "Disable the key?", text: `Every further request with ${k.id} of ${k.tenant} is refused.`, yes: "Disable", danger: true, report, act: () => post("disable") });
	const unlock = () => ask({ title: k.lock ? "Unlock the key?" : "Forget the failures?", text: `The next failure of ${k.id} of ${k.tenant} counts as the first one. A client that still signs wrongly locks it again: the last refusals say why.`,
		yes: k.lock ? "Unlock" : "Forget", report, act: () => post("unlock") });
	const rotate = async () => {
		const made = await ask({ title: "Make a new secret?", text: "The old secret lives on for a time, so that the holder can change over: 24h, 7d, or 0 to end it at once.",
			label: "For how long", value: "24h", yes: "Make it", report, act: (overlap) => post("rotate", { overlap }) });
		if (made) await showSecret(made.done);
		return made;
	};
	return h("div", { class: "actions", role: "group", "aria-label": "Changes" },
		change("rotate", "Rotate", rotate),
		k.lock || k.failures > 0 ? change("unlock", k.lock ? "Unlock" : "Forget the failures", unlock) : null,
		k.disabled ? change("enable", "Enable", () => post("enable")) : change("disable", "Disable", disable, "danger"));
}
