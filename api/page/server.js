// Every request of the page to the API.
//
// An error becomes a Fault with the API's message. A 401 opens one dialog for the key, whatever the number
// of waiting requests, and then repeats them.

import { complain, find } from "./elements.js";

const KEPT = "sotaque-key";
const WRONG = "The server rejects this key. Check it for missing or extra characters. The administrator finds it as API_KEY in the settings (.env).";
const UNSENDABLE = "This key contains characters that an API key cannot have. Use ASCII letters, digits and punctuation only.";

export class Fault extends Error {
  constructor(sentence, { status = 0, code = "", retryAfter = null } = {}) {
    super(sentence);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

let asking = null;

/** fetch with the key; returns a successful response. Throws Fault or AbortError. */
export async function request(path, options = {}) {
  for (;;) {
    const key = keyNow();
    const answer = await reach(path, withKey(options, key));
    if (answer.status !== 401) {
      if (answer.ok) return answer;
      throw await faultOf(answer);
    }
    await answer.body?.cancel();
    // Another request may have obtained the key meanwhile.
    if (keyNow() === key) {
      asking ??= askForKey(Boolean(key)).finally(() => (asking = null));
      keepKey(await asking);
    }
  }
}

const keyNow = () => sessionStorage.getItem(KEPT) ?? localStorage.getItem(KEPT);

/** Keeps the key for this tab, or, if the person wishes, for every tab of this browser. */
function keepKey(key) {
  const stays = find("key-stays").checked;
  sessionStorage.setItem(KEPT, key);
  if (stays) localStorage.setItem(KEPT, key);
  else localStorage.removeItem(KEPT);
}

/** Whether the server has asked for a key. */
export const hasKey = () => keyNow() !== null;

/** Asks for the key in a dialog. refused: whether the last key was refused. Resolves with a key. */
function askForKey(refused) {
  const dialog = find("key-dialog");
  const field = find("key");
  complain(find("key-fault"), refused ? { message: WRONG } : null);
  field.value = "";
  if (!dialog.open) dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    // The page needs the key, so Escape opens the dialog again.
    const closed = () => {
      const key = field.value.trim();
      if (key && !/^[ -~]+$/.test(key)) complain(find("key-fault"), { message: UNSENDABLE });
      if (!/^[ -~]+$/.test(key)) return void dialog.showModal();
      dialog.removeEventListener("close", closed);
      resolve(key);
    };
    dialog.addEventListener("close", closed);
  });
}

function withKey(options, key) {
  const headers = new Headers(options.headers ?? {});
  if (!headers.has("Accept")) headers.set("Accept", "application/json");
  if (key) headers.set("Authorization", `Bearer ${key}`);
  return { cache: "no-store", credentials: "same-origin", ...options, headers };
}

/** The address of a path of the service, which a proxy may have put below a path of its host. Pure. */
export const addressOf = (path, base = document.baseURI) => new URL(path.replace(/^\//, ""), base).href;

async function reach(path, options) {
  try {
    return await fetch(addressOf(path), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Fault("The server does not respond. Check that it is running, and try again.");
  }
}

async function faultOf(answer) {
  const about = { status: answer.status, retryAfter: answer.headers.get("Retry-After") };
  let body = null;
  try {
    body = await answer.json();
  } catch {
    // Not JSON: an empty body, or a proxy's page. The message has only the status.
  }
  const sentence = body?.detail ?? body?.error?.message ?? body?.title;
  const known = typeof sentence === "string" && sentence;
  const later = about.retryAfter ? ` Try again in ${about.retryAfter} s.` : "";
  return new Fault(
    known ? sentence : `The server answered with status ${answer.status} and no message.${later}`,
    { ...about, code: body?.code ?? "" },
  );
}

export async function read(path) {
  return (await request(path)).json();
}

export async function send(method, path, body) {
  const asItIs = body === undefined || body instanceof FormData;
  const answer = await request(path, {
    method,
    body: asItIs ? body : JSON.stringify(body),
    headers: asItIs ? {} : { "Content-Type": "application/json" },
  });
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

export async function bytes(path) {
  return (await request(path, { headers: { Accept: "audio/wav" } })).arrayBuffer();
}

export const runPath = (run) => `/v1/runs/${encodeURIComponent(run)}`;
export const epochPath = (run, epoch) => `${runPath(run)}/epochs/${encodeURIComponent(epoch)}`;
