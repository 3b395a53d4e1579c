// The dialogs: a question before a change, and a secret that is shown once. The
// browser keeps the focus inside, and Escape closes.
import { h, field } from "./dom.js";

let dialog = null; // the one that is open

// open shows a dialog. What is returned resolves when it is closed.
function open(title, ...content) {
	forget();
	dialog = h("dialog", { "aria-labelledby": "dialog-title" }, h("h2", { id: "dialog-title" }, title), ...content);
	document.body.append(dialog);
	dialog.showModal();
	const closed = dialog;
	return new Promise((done) => closed.addEventListener("close", () => {
		closed.remove();
		done();
	}));
}

// close ends the dialog and removes what is in it at once, before the browser says
// that it is closed.
function close() {
	dialog.replaceChildren();
	dialog.close();
}

// forget closes a dialog, if there is one.
export function forget() {
	if (dialog?.open) close();
}

// submitting returns what a form does when it is sent: it runs the action once, and
// shows in the form why that failed. A token that has ended is reported instead.
export function submitting(action, report) {
	let busy = false;
	return async (event) => {
		event.preventDefault();
		if (busy) return;
		busy = true;
		const form = event.target;
		form.querySelector(".refused")?.remove();
		try {
			await action(form);
		} catch (failure) {
			if (failure.wantsToken) report(failure);
			else form.append(h("p", { role: "alert", class: "bad refused" }, failure.message || String(failure)));
		} finally {
			busy = false;
		}
	};
}

// ask asks before a change, makes it by act, and returns its result; null if the
// answer was no. With a label it asks for a text, which act receives. A refused
// change is told in the dialog, which stays open.
export async function ask({ title, text, label, value, yes, danger, act, report }) {
	let result = null;
	const input = h("input", { value, autocomplete: "off", spellcheck: "false" });
	const form = h("form", { onsubmit: submitting(async () => {
		result = { done: await act(input.value.trim()) };
		close();
	}, report) },
	label ? field("answer", label, input) : null,
	h("button", { class: danger ? "danger" : undefined }, yes), h("button", { type: "button", onclick: close }, "Cancel"));
	const closed = open(title, h("p", {}, text), form);
	if (label) input.select();
	await closed;
	return result;
}

// showSecret shows a secret until the dialog is closed, and then it is gone.
export function showSecret(made) {
	const copied = h("p", { role: "status" });
	const copy = h("button", { type: "button", onclick: async () => {
		copied.textContent = await navigator.clipboard.writeText(made.secret).then(() => "The secret is copied.", () => "The browser does not let it be copied: select it.");
	} }, "Copy the secret");
	return open("The secret, shown this once",
		h("p", {}, "Give it to the holder of the key over a safe way. Nobody can show it again. It is text: its characters are the secret, although they could be read as base64."),
		h("p", {}, "Key ", h("code", {}, made.id)),
		h("output", { id: "secret" }, made.secret), copied,
		h("div", { class: "actions" }, navigator.clipboard ? copy : null, h("button", { type: "button", onclick: close }, "I have stored it")));
}
