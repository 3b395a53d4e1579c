// What the gateway did in the last fifteen minutes: the answer of GET /card-gateway/recent.
import { h, table, panel, keyLink, state } from "./dom.js";
import { number } from "./words.js";

const span = 900; // seconds
const [wide, high] = [600, 100]; // of a plot, in units of its own

function svg(name, attributes, ...children) {
	const element = document.createElementNS("http://www.w3.org/2000/svg", name);
	for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
	element.append(...children);
	return element;
}

// top returns the value of the upper edge of a plot: 1, 2 or 5 with zeros.
function top(values) {
	const most = Math.max(...values, 0) || 1, ten = 10 ** Math.floor(Math.log10(most));
	return [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= most * (1 - 1e-9));
}

// line returns a line of steps: of each when it began and ended, in seconds ago, and its
// value. It is broken where there is no value.
function line(points, most, kind) {
	const x = (ago) => (wide * Math.max(0, 1 - ago / span)).toFixed(1);
	let d = "", to = "M";
	for (const { begin, end, value } of points) {
		if (value !== undefined) d += `${to}${x(begin)} ${(high * (1 - value / most)).toFixed(1)}H${x(end)}`;
		to = value === undefined ? "M" : "L";
	}
	return svg("path", { d, class: kind, "vector-effect": "non-scaling-stroke" });
}

// plot returns lines over the last fifteen minutes. Beside it are the last value of each and
// the value of the upper edge, which is all that is said of it in words.
function plot({ name, lines, unit }) {
	const most = top(lines.flatMap((l) => l.points.map(({ value }) => value || 0)));
	const last = (l) => unit(l.points.at(-1)?.value);
	const words = lines.map((l) => `${l.name} ${last(l)}`).join(", ");
	return h("figure", { class: "plot" },
		svg("svg", { viewBox: `0 -2 ${wide} ${high + 4}`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}, the last 15 minutes. Now: ${words}. The upper edge is ${unit(most)}.` }, ...lines.map((l) => line(l.points, most, l.kind))),
		h("div", { class: "dim edges" }, h("span", {}, "15 minutes ago"), h("span", {}, `upper edge ${unit(most)}`), h("span", {}, "now")),
		h("figcaption", {}, lines.map((l) => h("span", {}, svg("svg", { class: "swatch", viewBox: "0 0 24 4", "aria-hidden": "true" }, svg("path", { d: "M0 2H24", class: l.kind })), ` ${l.name} `, h("b", {}, last(l))))));
}

const rate = (n) => n === undefined ? "unknown" : `${n >= 100 ? number(Math.round(n)) : Number(n.toPrecision(2))}/s`;

const latency = (s) => s === undefined ? "no answer" : s < 1 ? `${Number((s * 1000).toPrecision(2))} ms` : `${Number(s.toPrecision(2))} s`;

// through returns the points of a value of the steps.
const through = ({ at, steps }, value) => steps.map((s) => {
	const end = (new Date(at) - new Date(s.at)) / 1000;
	return { begin: end + s.seconds, end, value: value(s) };
});

export function requestPlot(recent) {
	const kinds = [["accepted", "accepted"], ["refused (4xx)", "refused"], ["failed (5xx)", "failed"]];
	return panel("Requests a second", plot({ name: "Requests a second", unit: rate, lines: kinds.map(([name, kind]) => ({ name, kind, points: through(recent, (s) => s[kind] / s.seconds) })) }));
}

export function issuerPlots(recent) {
	const own = Object.keys(recent.out).sort();
	const names = own.length === 1 ? own : ["", ...own];
	const last = (issuer) => rate((recent.steps.at(-1)?.issuers[issuer]?.answers || 0) / (recent.steps.at(-1)?.seconds || 1));
	return names.map((issuer) => [h("h3", {}, issuer || "All issuers", ": ", issuer ? [state(recent.out[issuer] ? "out" : "in"), ", "] : null, `answers ${last(issuer)}`), plot({ name: `Time until ${issuer || "the issuers"} answered`, unit: latency,
		lines: ["p50", "p99"].map((kind) => ({ name: kind, kind, points: through(recent, (s) => s.issuers[issuer]?.[kind]) })) })]);
}

// offenders shows the keys refused most, each with its refusals by half a minute.
export function offenders({ keys }) {
	const bars = (slots) => svg("svg", { viewBox: `0 0 ${4 * slots.length} 20`, class: "bars", "aria-hidden": "true" },
		...slots.map((n, i) => svg("rect", { x: 4 * i, width: 3, y: 20 - 20 * n / Math.max(...slots), height: 20 * n / Math.max(...slots) })));
	return panel("Keys refused most", table({ caption: "Refusals of the last 15 minutes, by half a minute", none: "No key was refused in the last 15 minutes.",
		columns: [["Key", "long"], ["Tenant", "long"], ["Refused", "number"], ["Last reason", "long"]],
		rows: keys.map((k) => [keyLink(k.key_id), k.tenant, [number(k.refused), bars(k.slots)], k.reason]) }));
}

// counts returns a table of counters: in the last fifteen minutes, and since the start.
export function counts({ caption, what, now, recent, none }) {
	const rows = Object.entries(now || {}).map(([name, n]) => [name, recent.steps.reduce((sum, s) => sum + (s.outcomes[name] || s.upstream[name] || 0), 0), n]).sort((a, b) => b[1] - a[1] || b[2] - a[2]);
	return table({ caption, none, columns: [[what, "long"], ["In 15 minutes", "number"], ["In all", "number"]], rows: rows.map(([name, last, n]) => [name, number(last), number(n)]) });
}
