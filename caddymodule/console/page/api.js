// The calls of the admin API.

// The token is in memory alone. No cookie and no storage has it, so no other page
// can make the browser send it, and a reload forgets it.
let token = "";

// needed is whether each call on this connection needs a token.
const needed = document.querySelector("meta[name=sign-in]").content === "needed";

export function setToken(text) { token = text.trim(); }

// A Failure is a call that was refused (status) or not answered (status 0).
export class Failure extends Error {
	constructor(status, message) {
		super(message);
		this.status = status;
	}
	// wantsToken: the caller has to show another token, or one at all.
	get wantsToken() { return this.status === 401 || this.status === 403 && /token/.test(this.message) && !/role viewer|changes/.test(this.message); }
}

// call returns the answer of the admin API, or throws a Failure. Without the token
// that it needs the gateway is not asked: it would record somebody who was refused.
export async function call(method, path, body) {
	if (needed && !token) throw new Failure(401, "The console wants a token of the option admin_token");
	const options = { method, headers: {}, cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(15000) };
	if (token) options.headers.Authorization = `Bearer ${token}`;
	if (body !== undefined) {
		options.headers["Content-Type"] = "application/json";
		options.body = JSON.stringify(body);
	}
	let answer, text;
	try {
		answer = await fetch(`../${path}`, options);
		text = await answer.text();
	} catch {
		throw new Failure(0, "The gateway does not answer.");
	}
	let found;
	try {
		found = JSON.parse(text);
	} catch {
		throw new Failure(answer.status, `The gateway answers ${answer.status} and no JSON.`);
	}
	if (!answer.ok) throw new Failure(answer.status, found.error || `The gateway answers ${answer.status}.`);
	return found;
}

export const read = (path) => call("GET", path);

// keyPath returns the path of a key.
export const keyPath = (id) => `keys/${encodeURIComponent(id)}`;
