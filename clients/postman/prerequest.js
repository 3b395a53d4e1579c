// Signs the request as it is about to be sent. What Postman would still change
// afterwards is resolved and written back here first: variables, and characters
// of the URL. A request that may change something is stored as it is signed, and
// sent as the same bytes until the outcome is known: postresponse.js forgets it.
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
  const raw = (pm.request.body && pm.request.body.raw) || "";
  const method = pm.request.method.toUpperCase();
  // {{$guid}} and its kin are another value each time they are read.
  const fixed = (text) => pm.variables.replaceIn(text.replace(/{{\$/g, "{$"));
  const asked = crypto.SHA256([keyId, method, fixed(pm.request.url.toString()), fixed(raw)].join("\n")).toString();

  const now = Math.floor(Date.now() / 1000);
  const safe = ["GET", "HEAD"].includes(method);
  const name = `call ${pm.info.requestId}`;
  let call = JSON.parse(pm.collectionVariables.get(name) || "null");
  if (!safe && pm.variables.get("newCall")) {
    call = null;
    pm.environment.set("newCall", "");
  }
  if (call && call.asked !== asked) {
    console.warn(`what became of the call ${call.nonce} is not known, and this is another call`);
    call = null;
  }
  if (call && now - call.timestamp > 270) {
    return refuse(`what became of the call ${call.nonce} is not known, and it is too old to be sent again. Read what it should have made, then set newCall`);
  }
  if (!call) {
    const url = pm.variables.replaceIn(pm.request.url.toString()).replace(/#.*$/, "");
    call = { asked, nonce: crypto.lib.WordArray.random(16).toString(), timestamp: now, sent: 0, url, body: pm.variables.replaceIn(raw) };
  }
  call.sent++;

  const { body, nonce, timestamp } = call;
  if (body) pm.request.body.update({ mode: "raw", raw: body });

  const [, origin, rest] = /^([a-z]+:\/\/[^/?]+)(.*)$/i.exec(call.url) || [];
  if (!origin) return refuse(`the URL ${call.url} must begin with https:// and a host`);
  if (rest.endsWith("?")) return refuse("leave the ? without parameters out");
  const target = (rest.startsWith("/") ? rest : `/${rest}`).replace(/[^A-Za-z0-9\-._~:/?[\]@!$&()*+,;=%]/gu, (c) => (c === "'" ? "%27" : encodeURIComponent(c)));
  pm.request.url.update(origin + target);

  const bodyHash = base64(crypto.SHA256(body));
  const stringToSign = [method, target, timestamp, nonce, bodyHash].join("\n");
  const headers = {
    "X-API-Key": keyId, "X-Timestamp": String(timestamp), "X-Nonce": nonce, "X-Body-Hash": bodyHash,
    "X-Signature": base64(crypto.HmacSHA256(stringToSign, secret)),
  };
  for (const [key, value] of Object.entries(headers)) pm.request.headers.upsert({ key, value });
  if (!safe) pm.collectionVariables.set(name, JSON.stringify(call));
}

sign();
