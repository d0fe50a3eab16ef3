// The request of the speak box as curl and Python.

import { announce, find, say } from "./elements.js";
import { addressOf, hasKey } from "./server.js";

/** The request for a POSIX shell. body: its JSON; key: whether the server requires one. */
export function asCurl(address, body, key) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const lines = [`curl ${quoted(address)}`, "-H 'Content-Type: application/json'"];
  if (key) lines.push("-H \"Authorization: Bearer $API_KEY\"");
  lines.push(`-d ${quoted(JSON.stringify(body))}`, `-o said.${body.response_format}`);
  return lines.join(" \\\n     ");
}

/** The request in Python, with only the standard library. */
export function asPython(address, body, key) {
  const headers = key
    ? '{"Content-Type": "application/json", "Authorization": f"Bearer {os.environ[\'API_KEY\']}"}'
    : '{"Content-Type": "application/json"}';
  return [
    "import json", ...(key ? ["import os"] : []), "import urllib.request", "",
    `body = ${literal(body)}`,
    "request = urllib.request.Request(",
    `    ${literal(address)}, json.dumps(body).encode(),`,
    `    ${headers},`,
    ")",
    `with urllib.request.urlopen(request) as answer, open("said.${body.response_format}", "wb") as file:`,
    "    file.write(answer.read())",
  ].join("\n");
}

// The body has only strings and numbers, which JSON and Python write in the same way.
function literal(value) {
  return JSON.stringify(value);
}

/** Shows a request in both forms. */
export function showRequest(path, body) {
  say(find("as-curl"), asCurl(addressOf(path), body, hasKey()));
  say(find("as-python"), asPython(addressOf(path), body, hasKey()));
}

/** Connects the two copy buttons. */
export function offerCopies() {
  for (const kind of ["curl", "python"]) {
    find(`copy-${kind}`).addEventListener("click", async () => {
      await navigator.clipboard.writeText(find(`as-${kind}`).textContent);
      announce("Copied.");
    });
  }
}
