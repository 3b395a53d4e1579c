// Numbers and moments in words, with their units.
import { h } from "./dom.js";

export const number = (n) => n.toLocaleString("en");

// count returns a number of things: "1 key", "2 keys".
export const count = (n, thing) => `${number(n)} ${thing}${n === 1 ? "" : "s"}`;

// bytes returns a number of bytes in the unit that suits it.
export function bytes(n) {
	const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
	let i = 0;
	for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
	return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1).replace(".0", "")} ${units[i]}`;
}

const two = (n) => String(n).padStart(2, "0");

// clock returns the time of day in the zone of the browser.
export const clock = (date) => `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;

const local = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(date)}`;

const moment = (text, words) => h("time", { datetime: text, title: text }, words);

// time returns a moment in the zone of the browser, with the exact one as title;
// null for none.
export const time = (text) => !text || text.startsWith("0001-") ? null : moment(text, local(new Date(text)));

const spans = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

// age returns how long ago a moment was, or how far ahead.
export function age(text) {
	if (!text) return "never";
	const seconds = (Date.now() - new Date(text)) / 1000;
	const [name, size] = spans.find(([, size]) => Math.abs(seconds) >= 2 * size) || spans[3];
	const span = count(Math.round(Math.abs(seconds) / size), name);
	return moment(text, seconds < 0 ? `in ${span}` : `${span} ago`);
}

// use returns how long ago a secret was last used, which is kept to the minute.
export const use = (text) => text && Date.now() - new Date(text) < 120e3 ? moment(text, "just now") : age(text);

// both returns a moment and how far it is.
export const both = (text) => time(text) && [time(text), " (", age(text), ")"];
