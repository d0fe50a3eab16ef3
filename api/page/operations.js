// Reads /openapi.json for the API reference. Pure; `docs` is the document.

const METHODS = ["get", "post", "put", "patch", "delete"];
const FORMATS = ["application/json", "multipart/form-data"];

/** A schema without references, and without the alternative null. */
function plain(schema, docs) {
  const found = schema?.$ref ? docs.components.schemas[schema.$ref.split("/").at(-1)] : schema ?? {};
  const choices = (found.anyOf ?? []).filter(({ type }) => type !== "null");
  return choices.length ? { ...plain(choices[0], docs), ...(found.default === undefined ? {} : { default: found.default }) } : found;
}

/** The type of a value and its limits in words. */
export function typeOf(schema, docs) {
  const found = plain(schema, docs);
  if (found.const !== undefined) return JSON.stringify(found.const);
  if (found.enum) return found.enum.map((one) => JSON.stringify(one)).join(", ");
  if (found.type === "array") return `list of ${typeOf(found.items, docs)}`;
  const limits = [["from", found.minimum], ["to", found.maximum]].filter(([, limit]) => Math.abs(limit) < 1e9).map(([word, limit]) => ` ${word} ${limit}`);
  const kind = { string: found.format === "binary" ? "file" : "text", integer: "whole number", boolean: "true or false" }[found.type];
  return (kind ?? found.type ?? (found.properties ? "object" : "any value")) + limits.join("") + (found.maxLength ? `, at most ${found.maxLength} characters` : "");
}

/** The body of a request or answer: {format, schema}, or null. */
const bodyOf = (content = {}, formats = FORMATS) => {
  const format = formats.find((one) => content[one]?.schema) ?? Object.keys(content)[0];
  return format ? { format, schema: content[format]?.schema ?? {} } : null;
};

/** The fields of an object: {name, type, needed, text}. */
export function fieldsOf(schema, docs) {
  const { properties = {}, required = [] } = plain(schema, docs);
  return Object.entries(properties).map(([name, field]) => ({
    name, type: typeOf(field, docs), needed: required.includes(name), text: field.description ?? plain(field, docs).description ?? "",
  }));
}

/** An example of a value. Deep objects are cut at the third level. */
export function exampleOf(schema, docs, depth = 0) {
  const found = plain(schema, docs);
  const given = [found.example, found.examples?.[0], found.const, found.enum?.[0], found.default].find((one) => one !== undefined && one !== null);
  if (given !== undefined) return given;
  if (found.type === "array") return depth > 2 ? [] : [exampleOf(found.items, docs, depth + 1)];
  if (found.properties) {
    if (depth > 2) return {};
    return Object.fromEntries(Object.entries(found.properties).map(([name, field]) => [name, exampleOf(field, docs, depth + 1)]));
  }
  return { string: "text", integer: found.minimum ?? 1, number: found.minimum ?? 1, boolean: true, object: {} }[found.type] ?? null;
}

/** A request with curl, with only the required fields. */
export function curlOf({ method, path, body }, origin, docs) {
  const words = [`curl${method === "GET" ? "" : ` -X ${method}`} ${origin}${path}`];
  const needed = body ? fieldsOf(body.schema, docs).filter((field) => field.needed) : [];
  const value = (name) => exampleOf(plain(body.schema, docs).properties[name], docs);
  if (body?.format === FORMATS[0]) {
    const sent = Object.fromEntries(needed.map(({ name }) => [name, value(name)]));
    words.push("-H 'Content-Type: application/json'", `-d '${JSON.stringify(sent)}'`);
  } else if (body?.format === FORMATS[1]) {
    words.push(...needed.map(({ name, type }) => `-F ${name}=${type.includes("file") ? "@FILE" : value(name)}`));
  } else if (body) words.push("--data-binary @FILE");
  return words.join(" \\\n  ");
}

/** A description as its first sentence and the rest. Pure. */
export function headlineOf(description) {
  const [, first, rest] = /^([^.]*(?:\.(?!\s)[^.]*)*\.?)([^]*)$/.exec(description.trim());
  return [first.replace(/\.$/, "").replace(/\s+/g, " "), rest.trim()];
}

/**
 * How a request is tried: {path, query, body} with the given values; names of parameters as `name (place)`. An
 * empty value is left out. Pure.
 */
export function triedAddress({ path, fields }, values) {
  const query = new URLSearchParams();
  let address = path;
  for (const { name } of fields) {
    const [, plainName, place] = /^(.*) \((\w+)\)$/.exec(name);
    const value = values[name] ?? "";
    if (place === "path") address = address.replace(`{${plainName}}`, encodeURIComponent(value));
    else if (place === "query" && value) query.set(plainName, value);
  }
  return query.size ? `${address}?${query}` : address;
}

/** The operations by their tag: [tag, [{method, path, title, text, fields, body, answer}]]. */
export function operationsOf(docs) {
  const tags = new Map();
  for (const [path, item] of Object.entries(docs.paths)) {
    for (const method of METHODS.filter((one) => item[one])) {
      const { tags: [tag] = ["other"], summary = "", description = "", parameters = [], requestBody, responses = {} } = item[method];
      const done = Object.entries(responses).find(([status]) => status.startsWith("2"))?.[1];
      const fields = parameters.map(({ name, in: place, required, schema, description: about = "" }) => ({ name: `${name} (${place})`, type: typeOf(schema, docs), needed: Boolean(required), text: about }));
      const body = bodyOf(requestBody?.content);
      const [headline, text] = headlineOf(description);
      const one = { method: method.toUpperCase(), path, title: headline || summary, text, fields, body, answer: bodyOf(done?.content) };
      tags.set(tag, [...(tags.get(tag) ?? []), one]);
    }
  }
  return [...tags];
}
