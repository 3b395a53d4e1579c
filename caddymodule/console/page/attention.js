// What an operator should look at, in one list above the overview.
import { h } from "./dom.js";
import { count, time } from "./words.js";

// degradations say what each word of the state's list is.
const degradations = {
	admin: "Another process has taken the admin socket of this gateway, or it was removed: card-keys and a reload do not reach it. A restart brings it back.",
	audit: "The audit record cannot be written, or its reserve of room is in use. Changes of keys are refused when it is used up.",
	config: "The last configuration was refused, and the one before it runs. A restart would not start.",
	drained: "An operator has taken this gateway out of service, and the time named for it is over, or none was named. card-node undrain puts it back.",
	keys: "No key can be changed in the store: nobody can disable one either.",
	log: "Log lines are lost, because an output of the log is slow or fails.",
	nonces: "More than four fifths of the room for nonces are used. When it is full, requests are refused.",
	policy: "Another gateway on this store has other rules.",
	store: "The store reports trouble of its own.",
};

// pages are their runbooks, where it is not that of degraded.
const pages = { audit: "key-changes-fail", keys: "key-changes-fail", log: "log-dropped", policy: "policy-differs" };

// runbook returns a link to a runbook. It opens in a tab of its own, because the
// console forgets its token when it is left.
const runbook = (name) => h("a", { href: `https://github.com/card-gateway/card-gateway/blob/main/docs/runbooks/${name}.md`, target: "_blank", rel: "noopener noreferrer" }, `Runbook ${name}`);

const keysLink = (text) => h("a", { href: "#/keys" }, text);

// refused shows why the last configuration was refused.
const refused = (loads) => h("div", { class: "dim" }, time(loads.refused_at), ": ", loads.refusal);

// attention returns the list, or that there is nothing.
export function attention(status) {
	const details = status.store.details || {}, list = [];
	const add = (kind, page, ...content) => list.push(h("li", { class: kind }, ...content, " ", runbook(page)));
	if (!status.store.ready) add("bad", "store-down", "The store cannot settle requests: they are refused.");
	for (const what of status.degraded || []) add("warn", pages[what] || "degraded", degradations[what] || `It is degraded: ${what}.`, what === "config" ? refused(status.loads) : null);
	if (status.problem) add("bad", "store-errors", `The keys cannot be counted: ${status.problem}.`);
	for (const text of details.warnings || []) add("warn", "degraded", `${text}.`);
	for (const s of status.sealed_by || []) if (!s.master_key) add("bad", "store-errors", `${count(s.secrets, "secret")} under a master key that this gateway was not given.`);
	if (status.seals?.refused) add("bad", "record-forged", `${count(status.seals.refused, "record")} of keys refused: something other than a gateway changed them.`);
	if (status.seals?.unsealed) add("warn", "keys-unsealed", `${count(status.seals.unsealed, "record")} of keys without a seal: whoever can write to the store can grant these keys anything. Check and seal them by card-keys seal.`);
	if (status.keys?.locked) add("warn", "key-locked", keysLink(count(status.keys.locked, "key")), status.keys.locked === 1 ? " is locked after wrong signatures." : " are locked after wrong signatures.");
	if (status.expiring?.["1d"]) add("warn", "keys-expiring", keysLink(count(status.expiring["1d"], "key")), " will expire within a day.");
	if (status.audit?.trouble) add("bad", "key-changes-fail", `The audit record: ${status.audit.trouble}.`);
	return h("section", { class: list.length ? "attention" : "attention calm", "aria-label": "What needs an operator" },
		list.length ? h("ul", {}, list) : h("p", {}, status.ready ? "Nothing needs an operator." : "Nothing else needs an operator."));
}
