// The list of keys, and a new key.
import { h, table, keyLink, field, state } from "./dom.js";
import { number, count, time, use, clock } from "./words.js";
import { call, read } from "./api.js";
import { showSecret, submitting } from "./dialog.js";

// What was searched last, so that coming back shows it again, and the last list
// that the gateway has given, to be shown while it cannot give another.
let wanted = { search: "", status: "" };
let last = null;

// columns are those of the list, each with that by which a key is sorted.
const columns = [["Key", "long", (k) => k.id], ["Tenant", "long", (k) => k.tenant], ["Status", "short", (k) => k.status], ["Scopes", "long", (k) => k.scopes.join(" ")],
	["Expires", "short", (k) => k.expires_at || "never"], ["Last used", "short", (k) => lastUse(k) || ""]];
let sorting = { by: -1, down: false };

// forgetKeys forgets what another token has shown.
export function forgetKeys() {
	wanted = { search: "", status: "" };
	last = null;
	sorting = { by: -1, down: false };
}

const rounds = 10; // calls for one page of a search

// fetchKeys returns the keys that are wanted after a cursor, some 100 of them.
async function fetchKeys(cursor) {
	const found = [];
	for (let round = 0; round < rounds; round++) {
		const query = new URLSearchParams({ limit: "100" });
		for (const [name, value] of Object.entries({ ...wanted, cursor })) if (value) query.set(name, value);
		const page = await read(`keys?${query}`);
		found.push(...page.keys);
		cursor = page.next || "";
		if (!cursor || found.length >= 100) break;
	}
	return { keys: found, next: cursor };
}

export async function keys({ may, report, counts }) {
	const list = h("div", { id: "list" });
	const search = h("input", { type: "search", value: wanted.search, autocomplete: "off", spellcheck: "false" });
	const status = h("select", {}, ["", "active", "disabled", "locked", "expired", "forged", "unreadable"].map((name) => h("option", { value: name, selected: name === wanted.status }, name || "all")));
	// draw shows what was read; a press of a heading sorts it.
	const draw = (more) => list.replaceChildren(...listing(last, { inAll: total(counts()), more, choose: (by) => {
		sorting = { by, down: sorting.by === by && !sorting.down };
		draw(more);
		list.querySelectorAll("th button")[by].focus();
	} }));
	const show = async (cursor) => {
		try {
			const page = await fetchKeys(cursor);
			last = { keys: cursor ? [...last.keys, ...page.keys] : page.keys, next: page.next, at: new Date() };
			draw(() => show(last.next));
		} catch (failure) {
			if (failure.wantsToken) throw failure;
			const old = last ? `The list below is of ${clock(last.at)}.` : "No list was read before.";
			if (last) draw();
			else list.replaceChildren();
			list.prepend(h("p", { class: "bad", id: "stale" }, `The keys cannot be read now: ${failure.message}. ${old}`));
		}
	};
	const form = h("form", { role: "search", onsubmit: (event) => {
		event.preventDefault();
		wanted = { search: search.value.trim(), status: status.value };
		show("").catch(report);
	} }, h("div", {}, field("search", "Part of an id, a tenant or a description", search)), h("div", {}, field("status", "Status", status)), h("button", {}, "Search"));
	await show("");
	return [h("h1", {}, "Keys"), form, may ? creation(report, show) : null, list].filter(Boolean);
}

// total returns how many keys there are of those that are wanted, as they were counted
// last; 0: nobody has counted them.
function total(counts) {
	if (wanted.search) return 0;
	return wanted.status ? counts?.[wanted.status] || 0 : Object.values(counts || {}).reduce((sum, n) => sum + n, 0);
}

function listing({ keys: found, next, at }, { inAll, more, choose }) {
	const about = (k) => k.mode === "live" ? state(k.status) : [state(k.status), ` (${k.mode})`];
	const value = columns[sorting.by]?.[2], way = sorting.down ? -1 : 1;
	const sorted = value ? found.toSorted((a, b) => way * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0)) : found;
	const amount = next && inAll > found.length ? `${number(found.length)} of ${count(inAll, "key")}` : count(found.length, "key") + (next ? ", and there may be more" : "");
	return [
		table({ caption: `${amount}, read at ${clock(at)}${next && value ? "; sorted are those that were read" : ""}`, none: "No key is like that.", columns, sort: { ...sorting, choose },
			rows: sorted.map((k) => [[keyLink(k.id), k.description ? h("div", { class: "dim" }, k.description) : null], k.tenant, about(k), k.scopes.join(" "), time(k.expires_at) || "never", use(lastUse(k))]) }),
		...(next && more ? [h("button", { type: "button", id: "more", onclick: more }, "Read further")] : []),
	];
}

const lastUse = (key) => key.secrets.map((s) => s.last_used_at).filter(Boolean).sort().at(-1);

const words = (text) => text.split(/[\s,]+/).filter(Boolean);

// creation returns the form for a new key.
function creation(report, show) {
	const tenant = h("input", { required: true, autocomplete: "off" }), description = h("input", { autocomplete: "off" });
	const scopes = h("input", { required: true, autocomplete: "off", spellcheck: "false", placeholder: "cards:read cards:write" });
	const ips = h("input", { autocomplete: "off", spellcheck: "false", placeholder: "any" }), expires = h("input", { type: "date" });
	const mode = h("select", {}, h("option", {}, "live"), h("option", {}, "test"));
	const make = async (form) => {
		const wish = { tenant: tenant.value.trim(), description: description.value.trim(), scopes: words(scopes.value), mode: mode.value };
		if (words(ips.value).length) wish.allowed_ips = words(ips.value);
		if (expires.value) wish.expires_at = `${expires.value}T00:00:00Z`;
		const made = await call("POST", "keys", wish);
		form.reset();
		await showSecret(made);
		await show("");
	};
	return h("details", { id: "create" }, h("summary", {}, "Make a key"), h("form", { class: "tall", onsubmit: submitting(make, report) },
		field("new-tenant", "Tenant", tenant), field("new-scopes", "Scopes", scopes), field("new-mode", "Mode", mode),
		field("new-description", "Description", description), field("new-ips", "Allowed addresses", ips), field("new-expires", "Expires (UTC)", expires),
		h("span"), h("button", {}, "Make the key")));
}
