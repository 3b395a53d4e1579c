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

const empty = (value) => value === null || value === undefined || value === "" || Array.isArray(value) && value.length === 0;

// panel returns a part of a page with its heading.
export const panel = (title, ...content) => h("section", {}, h("h2", {}, title), ...content);

// facts returns a list of names and values; empty values are left out.
export function facts(rows) {
	return h("dl", {}, rows.filter(([, value]) => !empty(value)).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

// table returns a table, or a sentence where it would have no rows. A column is
// its name and its kind: long (ids and texts of others, broken anywhere), short
// (never broken) or number. The roles keep it a table where the style shows rows as
// blocks. With sort the headings are buttons: sort has the column by which the rows are
// sorted (-1: none), whether downwards, and choose, which gets the column that was pressed.
export function table({ caption, columns, rows, none, sort }) {
	if (rows.length === 0) return h("p", { class: "dim" }, none);
	const cell = (value, i) => h("td", { role: "cell", class: columns[i][1], "data-label": columns[i][0] }, h("span", {}, empty(value) ? "–" : value));
	const heading = ([name, kind], i) => h("th", { role: "columnheader", scope: "col", class: kind, "aria-sort": sort?.by === i ? sort.down ? "descending" : "ascending" : undefined },
		sort ? h("button", { type: "button", onclick: () => sort.choose(i) }, name) : name);
	return h("div", { class: "scroll" }, h("table", { role: "table", class: width(columns) },
		h("caption", {}, caption),
		h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(heading))),
		h("tbody", { role: "rowgroup" }, rows.map((cells) => h("tr", { role: "row" }, cells.map(cell))))));
}

// width returns the class of a table by the room that its columns need.
function width(columns) {
	if (columns.length > 5) return "wide";
	return columns.length > 3 || columns.filter(([, kind]) => kind === "long").length > 1 ? "middle" : undefined;
}

export const keyLink = (id) => h("a", { href: `#/keys/${encodeURIComponent(id)}` }, id);

// field returns a label and its control.
export function field(id, label, control) {
	control.id = id;
	return [h("label", { for: id }, label), control];
}

const kinds = { in: "good", out: "bad", active: "good", answers: "good", disabled: "bad", locked: "bad", expired: "bad", forged: "bad", unreadable: "bad" };

// state returns a word of a state in its colour.
export const state = (word) => h("span", { class: kinds[word] }, word);

