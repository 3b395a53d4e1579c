"use strict";
// Calls the card API through Card Gateway: Client, and createFetch for programs
// that call fetch already. axios.js has an adapter. It is CommonJS, which both
// require and import load. index.d.ts describes what is exported.

const { createHash, createHmac, randomBytes, timingSafeEqual } = require("node:crypto");
const { STATUS_CODES } = require("node:http");
const { version } = require("./package.json");

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const wrongTime = "Request timestamp is outside the allowed window";
const replay = "Replay detected (duplicate nonce)";
const repeatWithin = 270; // seconds after the signature: the gateway's window is five minutes

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
    const problem = [text(fields.title), text(fields.detail)].filter(Boolean).join(": "); // RFC 9457
    const message = text(fields.message) || problem || STATUS_CODES[status] || "the request was refused";
    const details = fields.details ?? fields.errors;
    const requestId = headers.get("x-request-id") ?? "";
    super(`${status} ${code}: ${message} (request id ${requestId})`);
    Object.assign(this, {
      status, code, reason: message, requestId, body,
      details: Array.isArray(details) ? details : [],
      retryAfter: retryAfter(headers) ?? null,
      notExecuted: isNotExecuted(fields),
    });
  }
}

class TakenError extends CardError {
  constructor(call, requestId, perhapsByUs) {
    super(`the call ${call.nonce} was taken before, and its answer is lost; read what it should have made (request id ${requestId})`);
    Object.assign(this, { call, requestId, perhapsByUs });
  }
}

class UnknownError extends CardError {
  constructor(call, attempts, cause) {
    super(`it is not known whether the call ${call.nonce} was executed, and it may be until ${new Date(until(call) * 1000).toISOString()}; ` +
      `close it, or read what it should have made: after ${attempts} attempts: ${cause.cause?.message || cause.message}`, { cause });
    Object.assign(this, { call, attempts, until: until(call) });
  }
}

// until returns when nothing can execute a call any more, in Unix seconds.
function until(call) {
  return call.timestamp + 360;
}

// isNotExecuted: whether the gateway says that the request is certainly not executed.
function isNotExecuted(fields) {
  return fields.accepted === true && fields.forwarded === false;
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
  if (typeof inner === "object" && inner !== null) return inner;
  return { ...document, accepted: undefined, forwarded: undefined }; // the gateway's words alone
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

  begin(url, method, call) {
    if (url.origin !== this.base.origin) throw new UnsignableError(`${url.origin} is not ${this.base.origin}, the origin of the base URL`);
    return new Exchange(this, url, method, call);
  }

  // newCall returns a nonce and the time of the gateway's clock, as far as it is known.
  newCall() {
    return { nonce: randomBytes(16).toString("hex"), timestamp: Math.floor((this.now() + this.offset) / 1000) };
  }

  correctClock(headers) {
    const trusted = this.verifyAnswers || trustsDate(this.base);
    const moment = this.verifyAnswers ? Number(headers.get("x-response-timestamp")) * 1000 : Date.parse(headers.get("date") ?? "");
    const offset = moment - this.now();
    if (!trusted || !(Math.abs(offset) <= 24 * 3600e3)) return false;
    this.offset = offset;
    this.warn(`the clock of this machine differs from the gateway's by ${Math.round(offset / 1000)} s; set it by NTP`);
    return true;
  }
}

// An Exchange is one request between its attempts, and what an answer to it means. It
// sends nothing. A call that may change something is signed once, and each attempt sends
// the same bytes: the gateway accepts them once. It is signed anew only after an answer
// that says for certain that it was not executed.
class Exchange {
  attempts = 0;
  #policy;
  #url;
  #method;
  #chosen;
  #call;
  #headers; // undefined: the next attempt is signed anew
  #signedAt;
  #corrected = false; // the clock was set for this request
  #out = false; // the server has perhaps received what was signed last
  #perhaps = false; // an attempt was perhaps accepted

  constructor(policy, url, method, call) {
    this.#policy = policy;
    this.#url = url;
    this.#method = method;
    this.#chosen = call;
  }

  // sign returns the headers of the next attempt.
  sign(body) {
    this.attempts++;
    if (!this.#headers || this.safe) {
      this.#call = this.#chosen && this.#signedAt === undefined ? this.#chosen : this.#policy.newCall();
      this.#headers = this.#policy.signer.headers(this.#method, this.#url.pathname + this.#url.search, body, this.#call);
      this.#signedAt = performance.now();
    }
    // An answer whose coding the library removes could not be verified.
    return this.verifies ? { ...this.#headers, "Accept-Encoding": "identity" } : this.#headers;
  }

  // safe: whether the request changes nothing.
  get safe() {
    return this.#method === "GET" || this.#method === "HEAD";
  }

  // verifies: whether an answer must be verified before it is handed over.
  get verifies() {
    return this.#policy.verifyAnswers;
  }

  // reads: whether the body must be read before the answer is handed over. That of a
  // stream of events, and of an answer that is not signed although it must be, may never
  // end.
  reads(status, headers) {
    if (status >= 400) return true;
    if (this.verifies) return !isUnsigned(headers);
    return !this.safe && !text(headers.get("content-type")).startsWith("text/event-stream");
  }

  // verify throws UnprovenError for an answer that is not proven. body is as it
  // was received.
  verify(status, headers, body) {
    const { signer, now, offset } = this.#policy;
    const late = status === 401 && errorFields(body).message === wrongTime; // our clock is what is wrong; the nonce shows that it is new
    const at = late ? Number(headers.get("x-response-timestamp")) * 1000 : now() + offset;
    signer.verifyAnswer(this.#call.nonce, { status, headers, body }, at);
  }

  // afterAnswer returns the seconds to wait before another attempt, or undefined
  // if the answer is final. headers has get; body is as it was received. It throws
  // TakenError and UnknownError.
  afterAnswer(status, headers, body) {
    const fields = status >= 400 ? errorFields(body) : {};
    if (this.safe) return this.#afterSafe(status, headers, fields, body);
    this.#out = true;
    if (this.verifies) {
      try {
        this.verify(status, headers, body);
      } catch (unproven) { // whoever has written it, it says nothing
        this.#perhaps = true;
        return this.#wait(0) ?? this.#unknown(unproven);
      }
    }
    const asked = retryAfter(headers) ?? 0;
    if (isNotExecuted(fields)) {
      const wait = this.#wait(asked);
      if (wait !== undefined) this.#headers = this.#out = this.#perhaps = undefined;
      return wait;
    }
    if (fields.accepted === true) return undefined;
    const message = status === 401 ? fields.message : undefined;
    if (message === replay) throw new TakenError(this.#call, headers.get("x-request-id") ?? "", this.#perhaps);
    if (message === wrongTime && this.attempts === 1 && !this.#corrected && this.#policy.correctClock(headers)) {
      this.#headers = this.#out = undefined;
      this.#corrected = true;
      this.attempts = 0; // it was refused before anything was done
      return 0;
    }
    const ofGateway = fields.accepted !== undefined || ["UPSTREAM_ERROR", "UPSTREAM_TIMEOUT"].includes(fields.code) ||
      (status === 401 && fields.code === "UNAUTHORIZED");
    if (status === 429 || status === 503 || ((status === 502 || status === 504) && !this.verifies && !ofGateway)) {
      this.#perhaps ||= fields.accepted === undefined;
      // The same bytes may still be accepted, from whoever has them.
      return this.#wait(asked) ?? this.#unknown(new ApiError(status, headers, body));
    }
    if (ofGateway && this.#perhaps) this.#unknown(new ApiError(status, headers, body));
    return undefined;
  }

  // afterFailure is the same for a connection that failed. undefined: its error is for
  // the caller.
  afterFailure(error) {
    const sent = maybeSent(error);
    this.#out ||= sent;
    this.#perhaps ||= sent;
    return this.#wait(0) ?? this.given(error);
  }

  // given throws UnknownError for a call that is given up because of the error, if the
  // server may have received it.
  given(error) {
    if (!this.safe && this.#out) this.#unknown(error);
    return undefined;
  }

  // interrupted is given for an attempt that the caller has ended.
  interrupted(error) {
    this.#out = true;
    return this.given(error);
  }

  #afterSafe(status, headers, fields, body) {
    if (status === 401 && fields.message === wrongTime && !this.#corrected) {
      if (this.verifies) this.verify(status, headers, body);
      if (this.#policy.correctClock(headers)) {
        this.#corrected = true;
        this.attempts--; // it was refused before anything was done
        return 0;
      }
    }
    const asked = retryAfter(headers);
    const unforwarded = headers.get("x-gateway-forwarded") === "no";
    if (status === 429 || (status === 503 && (unforwarded || asked !== undefined))) return this.#wait(asked ?? 0);
    return undefined;
  }

  #unknown(cause) {
    throw new UnknownError(this.#call, this.attempts, cause);
  }

  #wait(asked) {
    // Jitter, so that many clients do not come back together.
    const wait = asked + Math.random() * Math.min(8, 0.25 * 2 ** this.attempts);
    if (this.attempts >= this.#policy.attempts || asked > this.#policy.maxWait) return undefined;
    if (!this.safe && (performance.now() - this.#signedAt) / 1000 + wait > repeatWithin) return undefined;
    return wait;
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
// of fetch, with redirects not followed, and its body if it had to be read. whole: it has
// to be.
async function fetchSigned(exchange, url, init, whole) {
  for (;;) {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(exchange.sign(init.body ?? ""))) headers.set(name, value);
    let wait;
    try {
      const answer = await fetch(url, { ...init, headers, redirect: "manual" });
      const read = exchange.reads(answer.status, answer.headers) || (whole && !exchange.verifies);
      const body = read ? Buffer.from(await answer.arrayBuffer()) : undefined;
      wait = exchange.afterAnswer(answer.status, answer.headers, body ?? "");
      if (wait === undefined) {
        if (!read && exchange.verifies) await answer.body?.cancel(); // it may never end
        if (exchange.verifies) exchange.verify(answer.status, answer.headers, body ?? "");
        return { answer, body };
      }
    } catch (error) {
      if (error instanceof CardError) throw error;
      wait = init.signal?.aborted ? exchange.interrupted(error) : exchange.afterFailure(error);
      if (wait === undefined) throw error;
    }
    await sleep(wait);
  }
}

// unread returns an answer like that of fetch, with the body that was read of it.
function unread({ answer, body }) {
  if (body === undefined) return answer;
  const { status, statusText, headers } = answer;
  const copy = new Response([204, 205, 304].includes(status) ? null : body, { status, statusText, headers });
  return Object.defineProperty(copy, "url", { value: answer.url });
}

// chosen returns the call that the headers of a request name already.
function chosen(headers) {
  const [nonce, timestamp] = [headers.get("x-nonce"), headers.get("x-timestamp")];
  if (nonce && !/^[0-9]+$/.test(timestamp ?? "")) {
    throw new UnsignableError("the request has X-Nonce without X-Timestamp; set both, or neither");
  }
  return nonce ? { nonce, timestamp: Number(timestamp) } : undefined;
}

function createFetch(options) {
  const policy = new Policy(options);
  return async function signedFetch(input, init = {}) {
    const request = input instanceof Request ? input : undefined;
    const address = request ? request.url : String(input);
    refuseDropped(address);
    const url = /^\/(?!\/)/.test(address) ? new URL(policy.base.pathname.replace(/\/$/, "") + address, policy.base) : new URL(address, policy.base);
    const method = (init.method ?? request?.method ?? "GET").toUpperCase();
    const given = init.body ?? (request?.body ? await request.clone().arrayBuffer() : undefined);
    const [body, contentType] = await bodyBytes(given);
    if (body && (method === "GET" || method === "HEAD")) throw new UnsignableError(`fetch sends no body with ${method}`);
    const headers = new Headers(init.headers ?? request?.headers);
    if (contentType && !headers.has("content-type")) headers.set("content-type", contentType);
    const signal = init.signal ?? request?.signal;
    return unread(await fetchSigned(policy.begin(url, method, chosen(headers)), url, { ...init, method, headers, body, signal }));
  };
}

class Client {
  #policy;
  #timeout;
  #dispatcher;

  constructor(options) {
    this.#policy = new Policy(options);
    this.#timeout = options.timeout ?? 120;
    this.#dispatcher = options.dispatcher;
  }

  newCall() {
    return this.#policy.newCall();
  }

  async closeCall(call) {
    const passed = () => new UnknownError(call, 0, new Error("its time has passed, so that nothing can execute it any more, and the gateway has forgotten its nonce"));
    if (this.#policy.newCall().timestamp > until(call)) throw passed();
    try {
      // With the timestamp of the call: a gateway that has lost its nonce refuses that.
      const { data: closed } = (await this.request("POST", "/gateway/v1/nonce/close", { call })).json();
      if (closed.nonce !== call.nonce) throw passed(); // the timestamp was refused, and another nonce signed
    } catch (error) {
      if (error instanceof TakenError && error.perhapsByUs) throw new UnknownError(call, 0, error); // perhaps by this close
      throw error;
    }
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

  async request(method, path, { query, json, body, headers, call, signal } = {}) {
    const verb = method.toUpperCase();
    const target = withQuery(this.#policy.base.pathname.replace(/\/$/, "") + path, query);
    checkTarget(target);
    refuseDropped(target);
    const url = new URL(this.#policy.base.origin + target);
    const sent = new Headers(headers);
    if (!sent.has("user-agent")) sent.set("user-agent", `card-gateway-javascript/${version}`);
    const [bytes, contentType] = await bodyBytes(json === undefined ? body : JSON.stringify(json));
    if (bytes && (verb === "GET" || verb === "HEAD")) throw new UnsignableError(`fetch sends no body with ${verb}`);
    if (bytes && !sent.has("content-type")) sent.set("content-type", contentType ?? "application/json");
    const exchange = this.#policy.begin(url, verb, call);
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(new Error(`no answer within ${this.#timeout} s`)), this.#timeout * 1000);
    const stop = () => limit.abort(signal.reason);
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    try {
      const init = { method: verb, headers: sent, body: bytes, signal: limit.signal, ...(this.#dispatcher && { dispatcher: this.#dispatcher }) };
      const got = await fetchSigned(exchange, url, init, true);
      return judge(got.answer, got.body);
    } catch (error) {
      if (error instanceof CardError) throw error;
      throw new ConnectionError(maybeSent(error), exchange.attempts, error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    }
  }
}

function judge(answer, body) {
  if (answer.status >= 400) throw new ApiError(answer.status, answer.headers, body);
  if (answer.status >= 300) throw new RedirectError(answer.status, answer.headers.get("location") ?? "");
  return { status: answer.status, headers: answer.headers, body, json: () => JSON.parse(body.toString()) };
}

// withQuery returns the path with the parameters that are neither null nor undefined,
// each escaped but for letters, digits and -._~
function withQuery(path, query) {
  const pairs = query instanceof URLSearchParams || Array.isArray(query) ? [...query] : Object.entries(query ?? {});
  const given = pairs.filter(([, value]) => value !== undefined && value !== null);
  if (given.length === 0) return path;
  const escape = (value) => encodeURIComponent(value).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  return path + (path.includes("?") ? "&" : "?") + given.map(([name, value]) => `${escape(name)}=${escape(value)}`).join("&");
}

module.exports = {
  ApiError, CardError, Client, ConnectionError, Policy, RedirectError, Signer, TakenError, UnknownError, UnprovenError, UnsignableError,
  bodyBytes, chosen, createFetch, refuseDropped, sleep, trustsDate, version,
};
