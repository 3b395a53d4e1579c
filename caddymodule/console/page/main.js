// The console: which page is shown, and what holds on all of them.
import { setToken, read } from "./api.js";
import { h } from "./dom.js";
import { clock } from "./words.js";
import { overview } from "./overview.js";
import { keys, forgetKeys } from "./keys.js";
import { key } from "./key.js";
import { refusals } from "./refusals.js";
import { forget } from "./dialog.js";

const every = 5000; // between two looks at the state, in milliseconds
const [main, login, state, trouble, tools, who, zone] = ["main", "login", "state", "trouble", "tools", "who", "zone"].map((id) => document.getElementById(id));
let status = null; // the last answer
let recent = null; // the last answer of what was done in the last minutes
let answered = null; // when the last answer came
let shown = 0;     // number of the last page, so that a late answer does not overwrite it

// report says what went wrong, and asks for a token where that is it.
function report(failure) {
	if (failure.wantsToken) {
		signIn(status || login.dataset.tried ? `${failure.message}. A token is the last word of its line in the file of admin_token.` : "");
		return;
	}
	say(trouble, failure.message || String(failure));
}

function say(where, text) {
	if (where.textContent !== text) where.textContent = text;
	where.hidden = !text;
}

// signIn removes what a token has shown, and asks for another one.
function signIn(why) {
	status = recent = null;
	shown++;
	setToken("");
	forget();
	forgetKeys();
	main.replaceChildren();
	document.title = "Card Gateway";
	say(state, "");
	say(trouble, why);
	tools.hidden = zone.hidden = true;
	login.hidden = false;
	document.getElementById("token").focus();
}

// look reads the state. Without an answer the last one stays, and the page says so.
async function look() {
	try {
		status = await read("status");
		recent = await read("recent");
	} catch (failure) {
		if (failure.status === 0) {
			trouble.dataset.lost = "yes";
			say(state, "");
			failure.message += ` It is asked again every ${every / 1000} seconds.`;
			if (answered && status) failure.message += ` What is shown is what was known at ${clock(answered)}.`;
		}
		report(failure);
		return false;
	}
	answered = new Date();
	login.hidden = true;
	tools.hidden = zone.hidden = false;
	document.getElementById("leave").hidden = status.caller.name.startsWith("unix:");
	who.textContent = `${status.caller.name} (${status.caller.role === "keys" ? "may change keys" : "may only read"})`;
	const old = status.store.ready ? "" : " What is shown of the store may be old.";
	say(state, status.ready ? "" : `The gateway is not ready: ${status.reason}.${old}`);
	if (trouble.dataset.lost) say(trouble, "");
	delete trouble.dataset.lost;
	return true;
}

// draw shows the page that the address names. Its heading gets the focus.
async function draw() {
	const number = ++shown;
	const [, page, id] = location.hash.split("/");
	for (const link of document.querySelectorAll("nav a")) {
		if (link.hash === `#/${page || ""}`) link.setAttribute("aria-current", "page");
		else link.removeAttribute("aria-current");
	}
	if (!status) return;
	const context = { may: status.caller.role === "keys", report, again: draw, counts: () => status?.keys };
	main.setAttribute("aria-busy", "true");
	try {
		let content;
		if (page === "keys" && id) content = await key(decodeURIComponent(id), context);
		else if (page === "keys") content = await keys(context);
		else if (page === "refusals") content = await refusals(status, recent);
		else content = overview(status, recent);
		if (number !== shown) return;
		main.replaceChildren(...content.flat(Infinity).filter(Boolean));
		document.title = `${main.querySelector("h1").textContent} – Card Gateway`;
		main.focus();
	} catch (failure) {
		if (number === shown) report(failure);
	} finally {
		if (number === shown) main.removeAttribute("aria-busy");
	}
}

// refresh shows the overview again, and leaves the focus where it is.
function refresh() {
	const page = location.hash.split("/")[1];
	if (page || !status) return;
	const at = document.activeElement, inside = at !== main && main.contains(at);
	const place = inside ? [...main.querySelectorAll("a")].indexOf(at) : -1;
	main.replaceChildren(...overview(status, recent));
	if (place >= 0) [...main.querySelectorAll("a")][place]?.focus({ preventScroll: true });
}

login.addEventListener("submit", async (event) => {
	event.preventDefault();
	const input = document.getElementById("token");
	setToken(input.value);
	input.value = "";
	login.dataset.tried = "yes";
	say(trouble, "");
	if (await look()) await draw();
});
document.getElementById("skip").addEventListener("click", (event) => {
	event.preventDefault();
	main.focus();
});
document.getElementById("again").addEventListener("click", async () => {
	say(trouble, "");
	shown++;
	main.setAttribute("aria-busy", "true");
	if (await look()) await draw();
	else main.removeAttribute("aria-busy");
});
document.getElementById("leave").addEventListener("click", () => signIn(""));
window.addEventListener("hashchange", () => {
	forget();
	say(trouble, "");
	draw();
});
// A browser may keep a page that was left, to come back to it.
window.addEventListener("pagehide", () => {
	if (status) signIn("");
});

window.addEventListener("pageshow", async (event) => {
	if (event.persisted && await look()) await draw();
});

let looking = false;
setInterval(async () => {
	if (document.hidden || looking || !login.hidden) return;
	looking = true;
	const role = status?.caller.role;
	if (await look()) await (role === status.caller.role ? refresh() : draw());
	looking = false;
}, every);
zone.textContent = `Times are those of this browser (${Intl.DateTimeFormat().resolvedOptions().timeZone}). Counters are those of this gateway since its process started.`;
main.replaceChildren(h("p", {}, "The state of the gateway is read."));
if (await look()) await draw();
