// Signs the request as it is about to be sent. What Postman would still change
// afterwards is resolved and written back here first: variables, and characters
// of the URL.
const crypto = require("crypto-js");
const base64 = (hash) => crypto.enc.Base64.stringify(hash);

function refuse(reason) {
  console.error(`${pm.info.requestName} cannot be signed: ${reason}`);
  pm.execution.skipRequest();
}

function sign() {
  const keyId = pm.variables.get("keyId");
  const secret = pm.variables.get("secret");
  if (!keyId || !secret) return refuse("set keyId and secret in the environment");

  const mode = pm.request.body && !pm.request.body.isEmpty() ? pm.request.body.mode : "raw";
  if (mode !== "raw") {
    return refuse(`the mode ${mode} is put together after this script has run; write the body as raw, with its Content-Type`);
  }
  // {{$guid}} and its kin are another value each time they are read.
  const body = pm.variables.replaceIn((pm.request.body && pm.request.body.raw) || "");
  if (body) pm.request.body.update({ mode: "raw", raw: body });

  const url = pm.variables.replaceIn(pm.request.url.toString()).replace(/#.*$/, "");
  const [, origin, rest] = /^([a-z]+:\/\/[^/?]+)(.*)$/i.exec(url) || [];
  if (!origin) return refuse(`the URL ${url} must begin with https:// and a host`);
  if (rest.endsWith("?")) return refuse("leave the ? without parameters out");
  const target = (rest.startsWith("/") ? rest : `/${rest}`).replace(/[^A-Za-z0-9\-._~:/?[\]@!$&()*+,;=%]/gu, (c) => (c === "'" ? "%27" : encodeURIComponent(c)));
  pm.request.url.update(origin + target);

  const timestamp = String(Math.floor(Date.now() / 1000));
  const nonce = crypto.lib.WordArray.random(16).toString();
  const bodyHash = base64(crypto.SHA256(body));
  const stringToSign = [pm.request.method.toUpperCase(), target, timestamp, nonce, bodyHash].join("\n");
  const headers = {
    "X-API-Key": keyId, "X-Timestamp": timestamp, "X-Nonce": nonce, "X-Body-Hash": bodyHash,
    "X-Signature": base64(crypto.HmacSHA256(stringToSign, secret)),
  };
  for (const [key, value] of Object.entries(headers)) pm.request.headers.upsert({ key, value });
}

sign();
