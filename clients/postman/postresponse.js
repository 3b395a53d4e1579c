// Forgets what prerequest.js has stored once the outcome of the call is known.
function after() {
  const name = `call ${pm.info.requestId}`;
  const call = JSON.parse(pm.collectionVariables.get(name) || "null");
  if (!call) return;
  let error = {};
  try {
    error = pm.response.json().error || {};
  } catch {
    // something between has answered
  }
  const { accepted, code, message } = error;
  const status = pm.response?.code; // undefined: there was no answer
  if (status === 401 && message === "Replay detected (duplicate nonce)") {
    console.error(`the call ${call.nonce} was taken before, and its answer is lost. Read what it should have made; to make another call, set newCall`);
    return;
  }
  const gateways = accepted !== undefined || (status === 401 && code === "UNAUTHORIZED") || ["UPSTREAM_ERROR", "UPSTREAM_TIMEOUT"].includes(code);
  const open = accepted !== true && (!status || status === 429 || status === 503 || (!gateways && (status === 502 || status === 504)));
  if (open || (gateways && accepted !== true && call.sent > 1)) {
    console.warn(`it is not known what became of the call ${call.nonce}. Send the request again: it has the same bytes`);
    return;
  }
  pm.collectionVariables.unset(name);
}

after();
