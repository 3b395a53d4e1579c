"use strict";
// An adapter for axios that signs what axios really sends:
//
//   axios.create({ baseURL, adapter: cardAdapter({ baseUrl: baseURL, keyId, secret }) })

const { Readable } = require("node:stream");
const axios = require("axios");
const { CardError, Policy, bodyBytes, chosen, refuseDropped, sleep } = require("./index.js");

function cardAdapter(options) {
  const policy = new Policy(options);
  const send = (axios.default ?? axios).getAdapter("http");
  return async function signingAdapter(config) {
    const address = axios.getUri(config);
    refuseDropped(address);
    // The URL parser writes ' in the query as %27, after axios has put it there.
    const url = new URL(address, policy.base);
    const method = (config.method ?? "GET").toUpperCase();
    const [data, contentType] = await bodyBytes(config.data);
    const exchange = policy.begin(url, method, chosen(readable(axios.AxiosHeaders.from(config.headers))));
    const whole = exchange.verifies || (!exchange.safe && config.responseType !== "stream");
    for (;;) {
      const headers = axios.AxiosHeaders.from(config.headers);
      if (contentType) headers.set("Content-Type", contentType);
      headers.set(exchange.sign(data ?? ""));
      let wait;
      try {
        const answer = await send({
          ...config, method, url: url.href, baseURL: undefined, params: undefined, headers, data,
          maxRedirects: 0, validateStatus: null, ...(whole && { responseType: "arraybuffer" }), ...(exchange.verifies && { decompress: false }),
        });
        const headersOf = readable(axios.AxiosHeaders.from(answer.headers));
        wait = exchange.afterAnswer(answer.status, headersOf, bytes(answer.data));
        if (wait === undefined) {
          if (exchange.verifies) exchange.verify(answer.status, headersOf, answer.data);
          if (whole) answer.data = asAsked(config, answer.data);
          return settle(config, answer);
        }
      } catch (error) {
        if (error instanceof CardError || (error.response && error.message !== "stream has been aborted")) throw error;
        wait = axios.isCancel(error) ? exchange.interrupted(error) : exchange.afterFailure(error);
        if (wait === undefined) throw error;
      }
      await sleep(wait);
    }
  };
}

// readable returns the headers with a get like that of fetch's.
function readable(headers) {
  return { get: (name) => headers.get(name) ?? null };
}

// bytes returns a body that axios has read; one that is still a stream is empty.
function bytes(data) {
  return typeof data === "string" || Buffer.isBuffer(data) ? Buffer.from(data) : Buffer.alloc(0);
}

// asAsked returns a body that was read whole as axios would have returned it.
function asAsked({ responseType, responseEncoding = "utf8" }, data) {
  if (responseType === "arraybuffer") return data;
  if (responseType === "stream") return Readable.from([data]);
  const text = data.toString(responseEncoding);
  return responseEncoding === "utf8" ? text.replace(/^\ufeff/, "") : text;
}

// settle ends the request as axios does, with the caller's config: what axios
// logs then has no signature.
function settle(config, answer) {
  answer.config = config;
  if (!config.validateStatus || config.validateStatus(answer.status)) return answer;
  const code = answer.status >= 500 ? "ERR_BAD_RESPONSE" : "ERR_BAD_REQUEST";
  throw new axios.AxiosError(`Request failed with status code ${answer.status}`, code, config, answer.request, answer);
}

module.exports = { cardAdapter };
