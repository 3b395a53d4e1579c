// Makes the Postman collection and its environment from docs/openapi.yaml, or
// with --check says whether they are what it makes. It needs js-yaml, found by
// NODE_PATH.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const yaml = createRequire(import.meta.url)("js-yaml");
const here = (name) => new URL(name, import.meta.url);
const api = yaml.load(readFileSync(here("../../docs/openapi.yaml"), "utf8"));

// Variables that a request of the collection sets for those after it, and where
// its answer has them.
const sets = {
  create_customer: { customerId: "data.id" },
  issue_card: { cardId: "cardId" },
  top_up_card: { topUpId: "topUpId" },
  upload_documents: { documentId: "data.0.documentId" },
  list_customer_transactions: { transactionId: "data.0.transactionId" },
};
const virtualProduct = "00000000-0000-4000-8000-000000000001";
// Operations after which a card or a key can do no more.
const last = ["replace_card", "cancel_card", "gateway_rotate"];

const deref = (value) => (value?.$ref ? deref(value.$ref.slice(2).split("/").reduce((at, key) => at[key], api)) : value);

// example returns the example that the page shows: of variant B where there are
// several, because the demo's key has it.
function example(content) {
  const all = content.examples;
  return all ? deref(all.B ?? Object.values(all)[0]).value : content.example;
}

// variables puts variables in the place of what differs from run to run.
function variables(value, name = "") {
  if (name === "documents") return ["{{documentId}}"];
  if (Array.isArray(value)) return value.map((each) => variables(each));
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, variables(each, key)]));
  if (["customerId", "cardId", "productId"].includes(name)) return `{{${name}}}`;
  return name === "email" ? "{{$guid}}@example.com" : value;
}

// Two bodies that the document describes by their schema only.
const form = [
  "--card-gateway", 'Content-Disposition: form-data; name="customerId"', "", "{{customerId}}",
  "--card-gateway", 'Content-Disposition: form-data; name="type"', "", "passport",
  "--card-gateway", 'Content-Disposition: form-data; name="file"; filename="passport.pdf"', "Content-Type: application/pdf", "", "%PDF-1.7 …",
  "--card-gateway--", "",
].join("\r\n");

function body(operation) {
  const content = deref(operation.requestBody)?.content;
  if (!content) return {};
  const type = Object.keys(content)[0];
  if (type === "multipart/form-data") return { type: `${type}; boundary=card-gateway`, raw: form };
  if (type === "*/*") return { type: "text/plain", raw: "anything {{$randomInt}}" };
  return { type, raw: JSON.stringify(variables(example(content[type])), null, 2) };
}

const lines = (text) => text.trimEnd().split("\n");
const script = (listen, text) => ({ listen, script: { type: "text/javascript", exec: lines(text) } });

function tests(operation) {
  const documented = Object.keys(operation.responses).map(Number);
  let text = `pm.test("is answered as documented, and not 401", () => {
  pm.expect(pm.response.code, pm.response.text()).to.be.oneOf(${JSON.stringify(documented.filter((status) => status !== 401))});
});
`;
  for (const [name, way] of Object.entries(sets[operation.operationId] ?? {})) {
    const path = way.split(".").map((step) => `?.[${JSON.stringify(step)}]`).join("");
    text += `if (pm.response.code < 300) pm.environment.set("${name}", pm.response.json()${path});\n`;
  }
  return script("test", text);
}

function item(path, method, operation, shared) {
  const parameters = [...(shared ?? []), ...(operation.parameters ?? [])].map(deref);
  const { type, raw } = body(operation);
  const query = parameters.filter((p) => p.in === "query").map((p) => ({
    key: p.name, value: String(p.example ?? p.schema?.examples?.[0] ?? p.schema?.default ?? ""), description: p.description, disabled: true,
  }));
  const segments = path.replace(/\{(\w+)\}/g, "{{$1}}").split("/").slice(1);
  return {
    name: operation.summary,
    request: {
      method: method.toUpperCase(),
      description: operation.description,
      header: type ? [{ key: "Content-Type", value: type }] : [],
      ...(raw === undefined ? {} : { body: { mode: "raw", raw } }),
      url: { raw: `{{baseUrl}}/${segments.join("/")}`, host: ["{{baseUrl}}"], path: segments, ...(query.length ? { query } : {}) },
    },
    event: [tests(operation)],
  };
}

const found = [];
for (const [path, methods] of Object.entries(api.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    if (!operation.operationId) continue;
    found.push({ id: operation.operationId, tag: operation.tags[0], item: item(path, method, operation, methods.parameters) });
  }
}
found.sort((a, b) => last.indexOf(a.id) - last.indexOf(b.id));
// A submission names documents.
const [documents] = found.splice(found.findIndex(({ id }) => id === "upload_documents"), 1);
found.splice(found.findIndex(({ id }) => id === "submit_applicant"), 0, documents);

const folders = [...new Set(found.filter(({ id }) => !last.includes(id)).map(({ tag }) => tag)), "Ends a card or a secret"];
const folder = ({ id, tag }) => (last.includes(id) ? folders.at(-1) : tag);
const collection = {
  info: {
    name: api.info.title,
    description: "Made from docs/openapi.yaml by clients/postman/generate.mjs. Its pre-request script signs each request.",
    schema: "https://schema.getpostman.com/json/collection/v2.1.0/collection.json",
    version: api.info.version,
  },
  protocolProfileBehavior: { followRedirects: false },
  event: [script("prerequest", readFileSync(here("prerequest.js"), "utf8")), script("test", readFileSync(here("postresponse.js"), "utf8"))],
  item: folders.map((name) => ({ name, item: found.filter((each) => folder(each) === name).map((each) => each.item) })),
};
const upload = found.find(({ id }) => id === "upload_documents").item;
collection.item.push({
  name: "What cannot be signed",
  item: [{
    ...upload, name: "Upload Documents as form-data",
    request: { ...upload.request, header: [], body: { mode: "formdata", formdata: [{ key: "type", value: "passport", type: "text" }] } },
    event: [],
  }],
});

const environment = {
  name: "Card Gateway demo",
  values: [
    { key: "baseUrl", value: "http://127.0.0.1:8080", type: "default", enabled: true },
    { key: "keyId", value: "", type: "default", enabled: true },
    { key: "secret", value: "", type: "secret", enabled: true },
    { key: "newCall", value: "", type: "default", enabled: true },
    { key: "productId", value: virtualProduct, type: "default", enabled: true },
  ],
};

for (const [name, value] of [["card-gateway.postman_collection.json", collection], ["card-gateway.postman_environment.json", environment]]) {
  const text = `${JSON.stringify(value, null, 2)}\n`;
  if (!process.argv.includes("--check")) {
    writeFileSync(here(name), text);
  } else if (readFileSync(here(name), "utf8") !== text) {
    console.error(`clients/postman/${name} is not what generate.mjs makes of docs/openapi.yaml: run it`);
    process.exitCode = 1;
  }
}
