// Runs the cases of tests/clients/matrix through this client: one JSON object a
// line on standard input, one answer a line on standard output.
"use strict";
const readline = require("node:readline");
const { Readable } = require("node:stream");
const card = require("card-gateway-client");

function body(c) {
  const bytes = Buffer.from(c.body, "base64");
  if (!c.has_body) return undefined;
  if (c.kind === "stream") return Readable.from([bytes]);
  if (c.kind !== "form") return bytes;
  const form = new FormData();
  form.append("type", "passport");
  form.append("file", new Blob([bytes]), "Zoë.pdf");
  return form;
}

function options(c) {
  return { baseUrl: c.base, keyId: c.key_id, secret: c.secret, now: () => Date.now() + c.clock * 1000, warn: () => {}, verifyAnswers: c.verify_answers,
    ...(c.attempts && { attempts: c.attempts }) };
}

function headers(c) {
  const call = c.nonce && c.adapter !== "client" ? { "X-Nonce": c.nonce, "X-Timestamp": c.timestamp } : {};
  return { ...call, ...(c.has_body && c.kind !== "form" ? { "Content-Type": "application/json" } : {}), ...c.headers };
}

const ways = {
  client(c) {
    const client = new card.Client(options(c));
    const call = c.nonce ? { nonce: c.nonce, timestamp: Number(c.timestamp) } : undefined;
    return async () => {
      if (c.do === "close") return client.closeCall(call).then(() => ({ closed: true }));
      const { status, body: content } = await client.request(c.method, c.target, { query: c.query, body: body(c), headers: headers(c), call });
      return { status, body: content.toString("base64") };
    };
  },
  fetch(c) {
    const signed = card.createFetch(options(c));
    const query = c.query ? `?${new URLSearchParams(c.query)}` : "";
    return async () => {
      const answer = await signed(c.base + c.target + query, { method: c.method, body: body(c), headers: headers(c), duplex: "half" });
      return { status: answer.status, body: Buffer.from(await answer.arrayBuffer()).toString("base64") };
    };
  },
  axios(c) {
    const axios = require("axios");
    const { cardAdapter } = require("card-gateway-client/axios");
    const instance = axios.create({ baseURL: c.base, adapter: cardAdapter(options(c)), responseType: "arraybuffer", proxy: false });
    const params = c.query && Object.fromEntries(c.query);
    return async () => {
      const answer = await instance.request({
        method: c.method, url: c.target, params, data: body(c), headers: headers(c), validateStatus: null,
      });
      return { status: answer.status, body: answer.data.toString("base64") };
    };
  },
};

async function run(c) {
  switch (c.do) {
    case "hello":
      return { adapters: { client: true, fetch: false, axios: false }, version: card.version };
    case "trusts":
      return { trusted: card.trustsDate(c.base) };
    case "sign": {
      const signer = new card.Signer(c.key_id, c.secret);
      const got = signer.headers(c.method, c.target ?? "", Buffer.from(c.body, "base64"), { timestamp: c.timestamp, nonce: c.nonce });
      return { signature: got["X-Signature"], body_hash: got["X-Body-Hash"] };
    }
    case "verify": {
      const answer = { status: c.status, headers: new Headers(), body: Buffer.from(c.body, "base64") };
      for (const [name, values] of Object.entries(c.answer)) values.forEach((value) => answer.headers.append(name, value));
      new card.Signer(c.key_id, c.secret).verifyAnswer(c.nonce, answer, c.now * 1000);
      return { verified: true };
    }
    case "parallel": {
      const send = ways[c.adapter](c);
      const all = await Promise.all(Array.from({ length: c.count }, send));
      return { statuses: all.map(({ status }) => status) };
    }
    default:
      return ways[c.adapter](c)();
  }
}

function describe(error) {
  if (error instanceof card.UnsignableError) return { type: "unsignable", message: error.message };
  if (error instanceof card.ApiError) {
    return { type: "api", status: error.status, code: error.code, message: error.reason, details: error.details,
      request_id: error.requestId, retry_after: error.retryAfter ?? 0, not_executed: error.notExecuted };
  }
  if (error instanceof card.UnprovenError) return { type: "unproven", status: error.status, unsigned: error.unsigned, message: error.message };
  if (error instanceof card.TakenError) return { type: "taken", ...error.call, message: error.message };
  if (error instanceof card.UnknownError) {
    return { type: "unknown", ...error.call, until: error.until, attempts: error.attempts, message: error.message };
  }
  if (error instanceof card.RedirectError) return { type: "redirect", location: error.location };
  if (error instanceof card.ConnectionError) return { type: "connection", sent: error.sent, attempts: error.attempts };
  if (error.message === "fetch failed" || error.message === "terminated" || error.isAxiosError) return { type: "connection" };
  return { type: "other", message: error.stack };
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const answer = await run(JSON.parse(line)).catch((error) => ({ error: describe(error) }));
    console.log(JSON.stringify(answer));
  }
})();
