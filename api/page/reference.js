// Draws the API reference at /docs.

import { complain, find, make } from "./elements.js";
import { curlOf, exampleOf, fieldsOf, operationsOf, triedAddress } from "./operations.js";
import { addressOf, request } from "./server.js";

const row = ({ name, type, needed, text }) =>
  make("tr", {}, make("td", {}, make("code", { text: name })), make("td", { text: `${type}${needed ? ", required" : ""}` }), make("td", { text }));

const table = (caption, fields) =>
  make("table", { class: "fields" }, make("caption", { text: caption }),
    make("thead", {}, make("tr", {}, ...["Name", "Type", "Meaning"].map((text) => make("th", { scope: "col", text })))),
    make("tbody", {}, ...fields.map(row)));

/** A form that sends the request and shows the answer; null for uploads, which curl sends. */
function trial(one, docs) {
  const { method, body, fields, path } = one;
  const isJson = body?.format === "application/json";
  if (body && !isJson) return null;
  const needed = isJson ? Object.fromEntries(fieldsOf(body.schema, docs).filter((field) => field.needed).map(({ name }) => [name, exampleOf(body.schema, docs)[name]])) : null;
  const answer = make("div", { role: "status" });
  const form = make("form", { class: "try" },
    ...fields.map(({ name, needed: required }) => make("label", {}, `${name} `, make("input", { name, required, autocomplete: "off" }))),
    isJson ? make("label", {}, "Body ", make("textarea", { name: "body", rows: 4, text: JSON.stringify(needed, null, 2) })) : null,
    make("button", { class: "plain", text: `Try it: ${method} ${path}` }), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(form));
    answer.textContent = "Waiting …";
    try {
      const headers = isJson ? { "Content-Type": "application/json", Accept: "*/*" } : { Accept: "*/*" };
      const got = await request(triedAddress(one, values), { method, headers, body: isJson ? values.body : undefined });
      answer.replaceChildren(await shown(got));
    } catch (fault) {
      answer.replaceChildren(make("p", { class: "fault", text: fault.message }));
    }
  });
  return form;
}

/** An answer as text, or as a player. */
async function shown(got) {
  const kind = got.headers.get("Content-Type") ?? "";
  if (kind.startsWith("audio/")) return make("audio", { controls: true, src: URL.createObjectURL(await got.blob()) });
  const text = await got.text();
  const isJson = /json/.test(kind) && text;
  return make("pre", {}, make("code", { text: `${got.status}\n${isJson ? JSON.stringify(JSON.parse(text), null, 2) : text.slice(0, 5000)}` }));
}

function operation(one, docs) {
  const { method, path, title, text, body, answer } = one;
  const fields = [...one.fields, ...(body ? fieldsOf(body.schema, docs) : [])];
  const isJson = answer?.format === "application/json";
  return make("details", { id: `${method}-${path}` },
    make("summary", {}, make("strong", { text: title }), " ", make("code", { text: `${method} ${path}` })),
    text ? make("p", { text }) : null,
    fields.length ? table("Request", fields) : null,
    make("pre", {}, make("code", { text: curlOf(one, addressOf("").replace(/\/$/, ""), docs) })),
    answer ? make("p", { text: isJson ? "Answer, with example values:" : `Answer: ${answer.format}` }) : null,
    isJson ? make("pre", {}, make("code", { text: JSON.stringify(exampleOf(answer.schema, docs), null, 2) })) : null,
    trial(one, docs));
}

try {
  const docs = await (await request("openapi.json")).json();
  const sections = operationsOf(docs).map(([tag, all]) =>
    make("section", { "aria-labelledby": `tag-${tag}` }, make("h2", { id: `tag-${tag}`, text: tag }), ...all.map((one) => operation(one, docs))));
  find("operations").replaceChildren(...sections);
} catch (fault) {
  complain(find("fault"), fault);
}
