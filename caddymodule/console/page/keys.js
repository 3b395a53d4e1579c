// The list of keys, and a new key.
import { h, table, keyLink, field, state } from "./dom.js";
import { count, time, use, clock } from "./words.js";
import { call, read } from "./api.js";
import { showSecret, submitting } from "./dialog.js";

// What was searched last, so that coming back shows it again, and the last list
// that the gateway has given, to be shown while it cannot give another.
let wanted = { search: "", status: "" };
let last = null;

// forgetKeys forgets what another token has shown.
export function forgetKeys() {
	wanted = { search: "", status: "" };
	last = null;
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

export async function keys({ may, report }) {
	const list = h("div", { id: "list" });
	const search = h("input", { type: "search", value: wanted.search, autocomplete: "off", spellcheck: "false" });
	const status = h("select", {}, ["", "active", "disabled", "locked", "expired", "forged", "unreadable"].map((name) => h("option", { value: name, selected: name === wanted.status }, name || "all")));
	const show = async (cursor) => {
		try {
			const page = await fetchKeys(cursor);
			last = { keys: cursor ? [...last.keys, ...page.keys] : page.keys, next: page.next, at: new Date() };
			list.replaceChildren(...listing(last, () => show(last.next)));
		} catch (failure) {
			if (failure.wantsToken) throw failure;
			const old = last ? `The list below is of ${clock(last.at)}.` : "No list was read before.";
			list.replaceChildren(h("p", { class: "bad", id: "stale" }, `The keys cannot be read now: ${failure.message}. ${old}`), ...(last ? listing(last) : []));
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

function listing({ keys: found, next, at }, more) {
	const about = (k) => k.mode === "live" ? state(k.status) : [state(k.status), ` (${k.mode})`];
	return [
		table({ caption: `${count(found.length, "key")}${next ? ", and there may be more" : ""}, read at ${clock(at)}`, none: "No key is like that.",
			columns: [["Key", "long"], ["Tenant", "long"], ["Status", "short"], ["Scopes", "long"], ["Expires", "short"], ["Last used", "short"]],
			rows: found.map((k) => [[keyLink(k.id), k.description ? h("div", { class: "dim" }, k.description) : null], k.tenant, about(k), k.scopes.join(" "), time(k.expires_at) || "never", use(lastUse(k))]) }),
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
