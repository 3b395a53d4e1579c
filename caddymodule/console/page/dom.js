// Makes elements. Texts become text nodes, never HTML.

// h returns an element. Attributes whose value is false or undefined are left out;
// onclick and onsubmit are functions. Children are texts, elements, and lists of
// them; null is left out.
export function h(name, attributes = {}, ...children) {
	const element = document.createElement(name);
	for (const [key, value] of Object.entries(attributes)) {
		if (value === false || value === undefined) continue;
		if (typeof value === "function") element.addEventListener(key.slice(2), value);
		else element.setAttribute(key, value === true ? "" : value);
	}
	element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map((child) => child instanceof Node ? child : String(child)));
	return element;
}

// facts returns a list of names and values; empty values are left out.
export function facts(rows) {
	return h("dl", {}, rows.filter(([, value]) => !empty(value)).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

const empty = (value) => value === null || value === undefined || value === "" || Array.isArray(value) && value.length === 0;

// table returns a table, or a sentence where it would have no rows.
export function table({ caption, head, rows, none }) {
	if (rows.length === 0) return h("p", {}, none);
	return h("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption }, h("table", {},
		h("caption", {}, caption),
		h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))),
		h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, empty(cell) ? "–" : cell)))))));
}

export const keyLink = (id) => h("a", { href: `#/keys/${encodeURIComponent(id)}` }, id);

// time returns a moment in the time of the browser, with the exact one as title.
export function time(text) {
	if (!text || text.startsWith("0001-")) return null;
	return h("time", { datetime: text, title: text }, new Date(text).toLocaleString());
}

const spans = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

// age returns how long ago a moment was, or how far ahead.
export function age(text) {
	if (!text) return "never";
	const seconds = (Date.now() - new Date(text)) / 1000;
	const [name, size] = spans.find(([, size]) => Math.abs(seconds) >= size) || spans[3];
	const n = Math.round(Math.abs(seconds) / size);
	const span = `${n} ${name}${n === 1 ? "" : "s"}`;
	return seconds < 0 ? `in ${span}` : `${span} ago`;
}

// field returns a label and its control.
export function field(id, label, control) {
	control.id = id;
	return [h("label", { for: id }, label), control];
}
