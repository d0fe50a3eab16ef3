// Draws the API reference at /docs.

import { complain, find, make } from "./elements.js";
import { curlOf, exampleOf, fieldsOf, operationsOf } from "./operations.js";
import { addressOf, request } from "./server.js";

const row = ({ name, type, needed, text }) =>
  make("tr", {}, make("td", {}, make("code", { text: name })), make("td", { text: `${type}${needed ? ", required" : ""}` }), make("td", { text }));

const table = (caption, fields) =>
  make("table", { class: "fields" }, make("caption", { text: caption }),
    make("thead", {}, make("tr", {}, ...["Name", "Type", "Meaning"].map((text) => make("th", { scope: "col", text })))),
    make("tbody", {}, ...fields.map(row)));

function operation(one, docs) {
  const { method, path, title, text, body, answer } = one;
  const fields = [...one.fields, ...(body ? fieldsOf(body.schema, docs) : [])];
  const isJson = answer?.format === "application/json";
  return make("details", { id: `${method}-${path}` },
    make("summary", {}, make("code", { text: `${method} ${path}` }), ` ${title}`),
    text ? make("p", { text }) : null,
    fields.length ? table("Request", fields) : null,
    make("pre", {}, make("code", { text: curlOf(one, addressOf("").replace(/\/$/, ""), docs) })),
    answer ? make("p", { text: isJson ? "Answer, with example values:" : `Answer: ${answer.format}` }) : null,
    isJson ? make("pre", {}, make("code", { text: JSON.stringify(exampleOf(answer.schema, docs), null, 2) })) : null);
}

try {
  const docs = await (await request("openapi.json")).json();
  const sections = operationsOf(docs).map(([tag, all]) =>
    make("section", { "aria-labelledby": `tag-${tag}` }, make("h2", { id: `tag-${tag}`, text: tag }), ...all.map((one) => operation(one, docs))));
  find("operations").replaceChildren(...sections);
} catch (fault) {
  complain(find("fault"), fault);
}
