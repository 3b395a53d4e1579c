"use strict";
// Calls the card API through Card Gateway: Client, and createFetch for programs
// that call fetch already. axios.js has an adapter. It is CommonJS, which both
// require and import load. index.d.ts describes what is exported.

const { createHash, createHmac, randomBytes, timingSafeEqual } = require("node:crypto");
const { version } = require("./package.json");

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const wrongTime = "Request timestamp is outside the allowed window";

class CardError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = this.constructor.name;
  }
}

class UnsignableError extends CardError {}

class RedirectError extends CardError {
  constructor(status, location) {
    super(`the server redirects to ${JSON.stringify(location)} (${status}), which is not followed; correct the base URL`);
    Object.assign(this, { status, location });
  }
}

class ConnectionError extends CardError {
  constructor(sent, attempts, cause) {
    const state = sent ? "the server may have received it" : "nothing was sent";
    super(`no answer after ${attempts} attempts, ${state}: ${cause.cause?.message || cause.message}`, { cause });
    Object.assign(this, { sent, attempts });
  }
}

class UnprovenError extends CardError {
  constructor(status, headers, unsigned, reason) {
    const requestId = headers.get("x-request-id") ?? "";
    super(`the answer ${status} is not proven to be the gateway's (request id ${requestId}): ${reason}`);
    Object.assign(this, { status, requestId, unsigned });
  }
}

class ApiError extends CardError {
  constructor(status, headers, body) {
    const fields = errorFields(body);
    const code = text(fields.code);
    const message = text(fields.message) || "the request was refused";
    const requestId = headers.get("x-request-id") ?? "";
    super(`${status} ${code}: ${message} (request id ${requestId})`);
    Object.assign(this, {
      status, code, reason: message, requestId, body,
      details: Array.isArray(fields.details) ? fields.details : [],
      retryAfter: retryAfter(headers) ?? null,
    });
  }
}

function text(value) {
  return typeof value === "string" ? value : "";
}

// errorFields returns code, message and details of an error body: the gateway
// has them in `error`, some issuers at the top level.
function errorFields(body) {
  let document;
  try {
    document = JSON.parse(Buffer.from(body).toString());
  } catch {
    return {};
  }
  const inner = document?.error;
  return typeof inner === "object" && inner !== null ? inner : (document ?? {});
}

function retryAfter(headers) {
  const value = headers.get("retry-after") ?? "";
  return /^[0-9]{1,9}$/.test(value) ? Number(value) : undefined;
}

const signatureHeaders = ["x-response-timestamp", "x-response-body-hash", "x-response-signature"];

// isUnsigned: whether the answer has no header of a signature.
function isUnsigned(headers) {
  return signatureHeaders.every((name) => typeof headers.get(name) !== "string");
}

// same compares in constant time.
function same(given, want) {
  const [a, b] = [Buffer.from(given), Buffer.from(want)];
  return a.length === b.length && timingSafeEqual(a, b);
}

class Signer {
  #secret;

  constructor(keyId, secret) {
    if (!keyId || !secret) throw new UnsignableError("the key id or the secret is empty; set both");
    this.keyId = keyId;
    this.#secret = secret;
  }

  headers(method, target, body = "", { timestamp = Math.floor(Date.now() / 1000), nonce = randomBytes(16).toString("hex") } = {}) {
    if (!methods.includes(method)) {
      throw new UnsignableError(`the method ${JSON.stringify(method)} is not one of ${methods.join(", ")}`);
    }
    checkTarget(target);
    const bodyHash = createHash("sha256").update(body).digest("base64");
    const stringToSign = [method, target, timestamp, nonce, bodyHash].join("\n");
    return {
      "X-API-Key": this.keyId, "X-Timestamp": String(timestamp), "X-Nonce": nonce, "X-Body-Hash": bodyHash,
      "X-Signature": createHmac("sha256", this.#secret).update(stringToSign).digest("base64"),
    };
  }

  verifyAnswer(nonce, { status, headers, body }, now = Date.now()) {
    const fail = (reason, unsigned = false) => { throw new UnprovenError(status, headers, unsigned, reason); };
    if (isUnsigned(headers)) {
      const says = text(errorFields(body).message);
      fail(`it is not signed${says && `; it says ${JSON.stringify(says)}`}`, true);
    }
    const [id, timestamp, hash, signature] = ["x-request-id", ...signatureHeaders].map((name) => headers.get(name) ?? "");
    const stringToSign = ["card-gateway-response-v1", status, id, timestamp, nonce, hash].join("\n");
    if (!id || !same(signature, createHmac("sha256", this.#secret).update(stringToSign).digest("base64"))) {
      fail("X-Response-Signature is not that of the status, the request id, the timestamp, the nonce and the hash");
    }
    if (!same(hash, createHash("sha256").update(body).digest("base64"))) fail("X-Response-Body-Hash is not that of the body");
    if (!/^[0-9]{1,12}$/.test(timestamp) || Math.abs(Math.floor(now / 1000) - Number(timestamp)) > 300) {
      fail("X-Response-Timestamp is more than five minutes from the clock");
    }
  }
}

const pathForm = /^\/(?:[!$&-;=@-[\]_a-z~]|%[0-9A-Fa-f]{2})*$/;
const queryForm = /^(?:[!"$&-~]|%[0-9A-Fa-f]{2})*$/;
const blank = "+\\s\\p{Cf}\\ufffd";
const vanishing = new RegExp(`^[.${blank}]*$|^[${blank}]+\\.`, "u");

// checkTarget throws UnsignableError for a path and query that the gateway would
// refuse, because two servers could read them in two ways.
function checkTarget(target) {
  const [path, query] = [target.replace(/\?[^]*/, ""), target.replace(/^[^?]*\??/, "")];
  if (target.length > 8192) throw new UnsignableError("the path and query are longer than 8 KiB");
  if (!path.startsWith("/")) throw new UnsignableError("the path must begin with a slash");
  for (const [name, part, form] of [["path", path, pathForm], ["query", query, queryForm]]) {
    if (form.test(part)) continue;
    throw new UnsignableError(`the ${name} holds a character that must be percent-encoded, or a % without two hexadecimal digits: ` +
      "write é as %C3%A9, a blank as %20 (encodeURIComponent)");
  }
  let decoded = path; // one character for each byte
  while (/%[0-9A-Fa-f]{2}/.test(decoded)) {
    decoded = decoded.replace(/%([0-9A-Fa-f]{2})/g, (_, digits) => String.fromCharCode(parseInt(digits, 16)));
  }
  // eslint-disable-next-line no-control-regex
  if (decoded.split("/").length !== path.split("/").length || /[\x00-\x1f\x7f\\]/.test(decoded)) {
    throw new UnsignableError("the path holds an encoded slash, backslash or control character; no identifier has one");
  }
  if (/[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]/.test(decoded)) {
    throw new UnsignableError("the path holds overlong UTF-8; encode the shortest form of the character");
  }
  const segments = decoded.replace(/^\/|\/$/g, "").split("/");
  const names = segments.map((segment) => Buffer.from(segment.split(";")[0], "latin1").toString());
  if (path !== "/" && (names.some((name) => vanishing.test(name)) || path.startsWith("//"))) {
    throw new UnsignableError("the path holds an empty segment, or one of dots and blanks; is an identifier empty?");
  }
}

// trustsDate: whether the Date of an answer from the URL may set the clock: over
// TLS, and from this machine.
function trustsDate(url) {
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || ["localhost", "[::1]"].includes(hostname) || /^127(\.[0-9]+){3}$/.test(hostname);
}

// A Policy is what all requests of one key share: attempts, waits and the clock.
class Policy {
  constructor({ baseUrl, keyId, secret, attempts = 3, maxWait = 30, warn = (message) => process.emitWarning(message), now = Date.now, verifyAnswers = false }) {
    if (!/^https?:\/\//.test(baseUrl ?? "")) throw new UnsignableError(`the base URL ${JSON.stringify(baseUrl)} must begin with https://`);
    this.base = new URL(baseUrl);
    this.signer = new Signer(keyId, secret);
    Object.assign(this, { attempts, maxWait, warn, now, verifyAnswers, offset: 0 });
  }

  begin(url, method) {
    if (url.origin !== this.base.origin) throw new UnsignableError(`${url.origin} is not ${this.base.origin}, the origin of the base URL`);
    return new Exchange(this, url, method);
  }

  correctClock(headers, body) {
    const offset = Date.parse(headers.get("date") ?? "") - this.now();
    if (errorFields(body).message !== wrongTime || !trustsDate(this.base) || !(Math.abs(offset) <= 24 * 3600e3)) return false;
    this.offset = offset;
    this.warn(`the clock of this machine differs from the gateway's by ${Math.round(offset / 1000)} s; set it by NTP`);
    return true;
  }
}

// An Exchange is one request between its attempts. It sends nothing.
class Exchange {
  attempts = 0;
  #policy;
  #url;
  #method;
  #corrected = false;
  #nonce;

  constructor(policy, url, method) {
    this.#policy = policy;
    this.#url = url;
    this.#method = method;
  }

  // sign returns the headers of the next attempt.
  sign(body) {
    const { signer, now, offset } = this.#policy;
    const timestamp = Math.floor((now() + offset) / 1000);
    const headers = signer.headers(this.#method, this.#url.pathname + this.#url.search, body, { timestamp });
    this.attempts++;
    this.#nonce = headers["X-Nonce"];
    // An answer whose coding the library removes could not be verified.
    return this.verifies ? { ...headers, "Accept-Encoding": "identity" } : headers;
  }

  // verifies: whether an answer must be verified before it is handed over.
  get verifies() {
    return this.#policy.verifyAnswers;
  }

  // verify throws UnprovenError for an answer that is not proven. body is as it
  // was received.
  verify(status, headers, body) {
    const { signer, now, offset } = this.#policy;
    signer.verifyAnswer(this.#nonce, { status, headers, body }, now() + offset);
  }

  // afterAnswer returns the seconds to wait before another attempt, or undefined
  // if the answer is final. headers has get; body is that of a 401.
  afterAnswer(status, headers, body) {
    if (status === 401 && !this.#corrected && this.#policy.correctClock(headers, body)) {
      this.#corrected = true;
      this.attempts--; // it was refused before anything was done
      return 0;
    }
    const asked = retryAfter(headers);
    const unforwarded = headers.get("x-gateway-forwarded") === "no";
    if (status === 429 || (status === 503 && (unforwarded || (this.#safe && asked !== undefined)))) return this.#wait(asked ?? 0);
    return undefined;
  }

  // afterFailure is the same for a connection that failed.
  afterFailure(error) {
    return this.#safe || !maybeSent(error) ? this.#wait(0) : undefined;
  }

  get #safe() {
    return this.#method === "GET" || this.#method === "HEAD";
  }

  #wait(asked) {
    if (this.attempts >= this.#policy.attempts || asked > this.#policy.maxWait) return undefined;
    // Jitter, so that many clients do not come back together.
    return asked + Math.random() * Math.min(8, 0.25 * 2 ** this.attempts);
  }
}

const neverConnected = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];

// maybeSent: whether the server may have received the request of this error.
function maybeSent(error) {
  const cause = error.cause ?? error;
  const causes = cause.errors?.length ? cause.errors : [cause]; // one for each address
  return !causes.every(({ code }) => neverConnected.includes(code));
}

function sleep(seconds) {
  return new Promise((resolve) => { setTimeout(resolve, seconds * 1000); });
}

// refuseDropped throws UnsignableError for a URL of which the URL parser would
// drop something without a word.
function refuseDropped(address) {
  if (/^[^?#]*\?(#|$)/.test(address)) throw new UnsignableError("the URL parser drops a ? without a query; leave it out");
  if (/[\t\n\r]/.test(address)) throw new UnsignableError("the URL parser drops line feeds and tabs; use encodeURIComponent");
}

// bodyBytes returns the bytes of a body and its content type. A form is built
// here, once: its boundary is part of what is signed.
async function bodyBytes(body) {
  if (body === undefined || body === null) return [undefined, undefined];
  if (typeof body === "string") return [Buffer.from(body), undefined];
  if (body instanceof ArrayBuffer) return [Buffer.from(body), undefined];
  if (ArrayBuffer.isView(body)) return [Buffer.from(body.buffer, body.byteOffset, body.byteLength), undefined];
  if (body instanceof FormData || body instanceof URLSearchParams || body instanceof Blob) {
    const built = new Response(body);
    return [Buffer.from(await built.arrayBuffer()), built.headers.get("content-type") ?? undefined];
  }
  if (typeof body.getBuffer === "function" && typeof body.getHeaders === "function") { // the package form-data
    try {
      return [body.getBuffer(), body.getHeaders()["content-type"]];
    } catch (cause) {
      throw new UnsignableError("the form holds a stream, which cannot be read twice; append Buffers", { cause });
    }
  }
  throw new UnsignableError(`a body of type ${body.constructor?.name} cannot be read twice, and its hash is sent before it: ` +
    "pass a string, a Buffer or a FormData (for a stream: await new Response(stream).arrayBuffer())");
}

// fetchSigned sends one request, several times if need be. It returns the answer
// of fetch, with redirects not followed.
async function fetchSigned(exchange, url, init) {
  for (;;) {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(exchange.sign(init.body ?? ""))) headers.set(name, value);
    let wait;
    try {
      const answer = await fetch(url, { ...init, headers, redirect: "manual" });
      wait = exchange.afterAnswer(answer.status, answer.headers, answer.status === 401 ? await answer.clone().arrayBuffer() : "");
      if (wait === undefined) return exchange.verifies ? await proven(exchange, answer) : answer;
      await answer.arrayBuffer();
    } catch (error) {
      if (error instanceof CardError || error.name === "AbortError" || error.name === "TimeoutError") throw error;
      wait = exchange.afterFailure(error);
      if (wait === undefined) throw error;
    }
    await sleep(wait);
  }
}

// proven reads the answer of fetch and returns one like it, if it is proven.
async function proven(exchange, answer) {
  const { status, statusText, headers } = answer;
  if (isUnsigned(headers) && status < 400) {
    await answer.body?.cancel(); // it may never end
    exchange.verify(status, headers, "");
  }
  const body = Buffer.from(await answer.arrayBuffer());
  exchange.verify(status, headers, body);
  const copy = new Response([204, 205, 304].includes(status) ? null : body, { status, statusText, headers });
  return Object.defineProperty(copy, "url", { value: answer.url });
}

function createFetch(options) {
  const policy = new Policy(options);
  return async function signedFetch(input, init = {}) {
    const request = input instanceof Request ? input : undefined;
    const address = request ? request.url : String(input);
    refuseDropped(address);
    const url = new URL(address, policy.base);
    const method = (init.method ?? request?.method ?? "GET").toUpperCase();
    const given = init.body ?? (request?.body ? await request.clone().arrayBuffer() : undefined);
    const [body, contentType] = await bodyBytes(given);
    if (body && (method === "GET" || method === "HEAD")) throw new UnsignableError(`fetch sends no body with ${method}`);
    const headers = new Headers(init.headers ?? request?.headers);
    if (contentType && !headers.has("content-type")) headers.set("content-type", contentType);
    const signal = init.signal ?? request?.signal;
    return fetchSigned(policy.begin(url, method), url, { ...init, method, headers, body, signal });
  };
}

class Client {
  #policy;
  #timeout;

  constructor(options) {
    this.#policy = new Policy(options);
    this.#timeout = options.timeout ?? 120;
  }

  get(path, query) {
    return this.request("GET", path, { query });
  }

  post(path, json) {
    return this.request("POST", path, { json });
  }

  patch(path, json) {
    return this.request("PATCH", path, { json });
  }

  async request(method, path, { query, json, body, headers } = {}) {
    const verb = method.toUpperCase();
    const target = this.#policy.base.pathname.replace(/\/$/, "") + path + (query ? `?${encodeQuery(query)}` : "");
    checkTarget(target);
    refuseDropped(target);
    const url = new URL(this.#policy.base.origin + target);
    const sent = new Headers(headers);
    if (!sent.has("user-agent")) sent.set("user-agent", `card-gateway-javascript/${version}`);
    const [bytes, contentType] = await bodyBytes(json === undefined ? body : JSON.stringify(json));
    if (bytes && (verb === "GET" || verb === "HEAD")) throw new UnsignableError(`fetch sends no body with ${verb}`);
    if (bytes && !sent.has("content-type")) sent.set("content-type", contentType ?? "application/json");
    const exchange = this.#policy.begin(url, verb);
    try {
      const signal = AbortSignal.timeout(this.#timeout * 1000);
      const answer = await fetchSigned(exchange, url, { method: verb, headers: sent, body: bytes, signal });
      return judge(answer, Buffer.from(await answer.arrayBuffer()));
    } catch (error) {
      if (error instanceof CardError) throw error;
      throw new ConnectionError(maybeSent(error), exchange.attempts, error);
    }
  }
}

function judge(answer, body) {
  if (answer.status >= 400) throw new ApiError(answer.status, answer.headers, body);
  if (answer.status >= 300) throw new RedirectError(answer.status, answer.headers.get("location") ?? "");
  return { status: answer.status, headers: answer.headers, body, json: () => JSON.parse(body.toString()) };
}

// encodeQuery escapes all but letters, digits and -._~
function encodeQuery(query) {
  const pairs = query instanceof URLSearchParams || Array.isArray(query) ? [...query] : Object.entries(query);
  const escape = (value) => encodeURIComponent(value).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  return pairs.map(([name, value]) => `${escape(name)}=${escape(value)}`).join("&");
}

module.exports = {
  ApiError, CardError, Client, ConnectionError, Policy, RedirectError, Signer, UnprovenError, UnsignableError,
  bodyBytes, createFetch, refuseDropped, sleep, trustsDate, version,
};
