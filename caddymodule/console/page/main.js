// The console: which page is shown, and what holds on all of them.
import { setToken, read } from "./api.js";
import { h } from "./dom.js";
import { overview } from "./overview.js";
import { keys } from "./keys.js";
import { key } from "./key.js";
import { refusals } from "./refusals.js";

const every = 5000; // between two looks at the state, in milliseconds
const [main, login, state, trouble, who] = ["main", "login", "state", "trouble", "who"].map((id) => document.getElementById(id));
let status = null; // the last answer
let shown = 0;     // number of the last page, so that a late answer does not overwrite it

// report says what went wrong, and asks for a token where that is it.
function report(failure) {
	if (failure.wantsToken) {
		signIn(status || login.dataset.tried ? failure.message : "");
		return;
	}
	say(trouble, failure.message || String(failure));
}

function say(where, text) {
	if (where.textContent !== text) where.textContent = text;
	where.hidden = !text;
}

function signIn(why) {
	status = null;
	main.replaceChildren();
	say(state, "");
	say(trouble, why);
	who.textContent = "";
	if (login.hidden) {
		login.hidden = false;
		document.getElementById("token").focus();
	}
}

// look reads the state. Without an answer the last one stays, and the page says so.
async function look() {
	try {
		status = await read("status");
		login.hidden = true;
		who.textContent = `${status.caller.name} (${status.caller.role === "keys" ? "may change keys" : "may only read"})`;
		say(state, status.ready ? "" : `The gateway is not ready: ${status.reason}. What is shown may be old.`);
		if (trouble.dataset.lost) say(trouble, "");
		delete trouble.dataset.lost;
		return true;
	} catch (failure) {
		if (failure.status === 0) trouble.dataset.lost = "yes";
		if (failure.status === 0 && status) failure.message += " What is shown is what was known last.";
		report(failure);
		return false;
	}
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
	const context = { may: status.caller.role === "keys", report, again: draw };
	try {
		let content;
		if (page === "keys" && id) content = await key(decodeURIComponent(id), context);
		else if (page === "keys") content = await keys(context);
		else if (page === "refusals") content = await refusals(status);
		else content = overview(status);
		if (number !== shown) return;
		main.replaceChildren(...content.flat(Infinity));
		document.title = `${main.querySelector("h1").textContent} – Card Gateway`;
		main.focus();
	} catch (failure) {
		report(failure);
	}
}

// refresh shows the overview again, and leaves the focus where it is.
function refresh() {
	const page = location.hash.split("/")[1];
	if (page || !status) return;
	const at = document.activeElement, inside = at !== main && main.contains(at);
	const place = inside ? [...main.querySelectorAll("a, [tabindex]")].indexOf(at) : -1;
	main.replaceChildren(...overview(status).flat(Infinity));
	if (place >= 0) [...main.querySelectorAll("a, [tabindex]")][place]?.focus({ preventScroll: true });
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
window.addEventListener("hashchange", () => {
	say(trouble, "");
	draw();
});
setInterval(async () => {
	if (document.hidden || !status) return;
	if (await look()) refresh();
}, every);
main.replaceChildren(h("p", {}, "The state of the gateway is read."));
if (await look()) await draw();
