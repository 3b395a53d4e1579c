// card-request.mjs METHOD URL [BODY]
import { createHash, createHmac, randomBytes } from "node:crypto";

function sign(method, target, body) {
  const timestamp = String(Math.floor(Date.now() / 1000));
  const nonce = randomBytes(16).toString("hex");
  const bodyHash = createHash("sha256").update(body).digest("base64");
  const stringToSign = [method, target, timestamp, nonce, bodyHash].join("\n");
  const signature = createHmac("sha256", process.env.CARD_SECRET).update(stringToSign).digest("base64");
  return {
    "X-API-Key": process.env.CARD_KEY_ID, "X-Timestamp": timestamp, "X-Nonce": nonce,
    "X-Body-Hash": bodyHash, "X-Signature": signature,
  };
}

const [method, address, body] = process.argv.slice(2);
const url = new URL(address);
const headers = { "Content-Type": "application/json", ...sign(method, url.pathname + url.search, body ?? "") };
const answer = await fetch(url, { method, headers, body, redirect: "manual" });
console.log(await answer.text());
process.exitCode = answer.ok ? 0 : 1;
