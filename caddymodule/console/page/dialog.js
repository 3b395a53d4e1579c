// The dialogs: a question before a change, and a secret that is shown once. The
// browser keeps the focus inside, and Escape closes.
import { h, field } from "./dom.js";

const dialog = document.getElementById("dialog");

// open shows a dialog and waits until it is closed. It returns the value of the
// button, "" for Escape. What was in it is removed.
function open(title, ...content) {
	return new Promise((done) => {
		dialog.replaceChildren(h("h2", { id: "dialog-title" }, title), ...content);
		dialog.returnValue = "";
		dialog.addEventListener("close", () => {
			dialog.replaceChildren();
			done(dialog.returnValue);
		}, { once: true });
		dialog.showModal();
	});
}

const button = (label, value) => h("button", { type: "button", onclick: () => dialog.close(value) }, label);

// ask returns whether the answer was yes.
export async function ask({ title, text, yes }) {
	return await open(title, h("p", {}, text), h("div", { class: "actions" }, button(yes, "yes"), button("Cancel", ""))) === "yes";
}

// askFor returns a text, null for none.
export async function askFor({ title, text, label, value, yes }) {
	const input = h("input", { value });
	const answer = await open(title, h("p", {}, text), h("form", { onsubmit: (event) => { event.preventDefault(); dialog.close("yes"); } },
		field("answer", label, input), h("button", {}, yes), button("Cancel", "")));
	return answer === "yes" ? input.value : null;
}

// showSecret shows a secret until the dialog is closed, and then it is gone.
export function showSecret(made) {
	const copied = h("p", { role: "status" });
	const copy = h("button", { type: "button", onclick: async () => {
		await navigator.clipboard.writeText(made.secret);
		copied.textContent = "It is copied.";
	} }, "Copy the secret");
	return open("The secret, shown this once",
		h("p", {}, "Give it to the holder of the key over a safe way. Nobody can show it again."),
		h("p", {}, "Key ", h("code", {}, made.id)),
		h("output", { id: "secret" }, made.secret), copied,
		h("div", { class: "actions" }, navigator.clipboard ? copy : null, button("I have stored it", "")));
}
