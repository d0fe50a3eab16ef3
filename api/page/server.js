// Asking the API: every request of the page goes through here.
//
// A fault becomes a Fault whose message is the API's own sentence. A 401 asks the person for the
// key, once for all requests that wait, and goes on with it.

const KEPT = "sotaque-key";

export class Fault extends Error {
  constructor(sentence, { status = 0, code = "", retryAfter = null } = {}) {
    super(sentence);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

let askForKey = () => Promise.reject(new Fault("The server asks for a key."));
let asking = null;

/** ask: (refused) => Promise of a key; called when the server answers 401. */
export function onKeyWanted(ask) {
  askForKey = ask;
}

/** fetch with the key; the answer is one that succeeded. Throws Fault, or AbortError. */
export async function request(path, options = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEPT);
    const answer = await reach(path, withKey(options, key));
    if (answer.status !== 401) {
      if (answer.ok) return answer;
      throw await faultOf(answer);
    }
    await answer.body?.cancel();
    // Another request may have brought the key while this one was on its way.
    if (sessionStorage.getItem(KEPT) === key) {
      asking ??= askForKey(Boolean(key)).finally(() => (asking = null));
      sessionStorage.setItem(KEPT, await asking);
    }
  }
}

/** Whether the server asked for a key, and has it. */
export const hasKey = () => sessionStorage.getItem(KEPT) !== null;

function withKey(options, key) {
  const headers = new Headers(options.headers ?? {});
  if (!headers.has("Accept")) headers.set("Accept", "application/json");
  if (key) headers.set("Authorization", `Bearer ${key}`);
  return { cache: "no-store", credentials: "same-origin", ...options, headers };
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Fault("The server does not answer. Is it running? The page tries again by itself.");
  }
}

async function faultOf(answer) {
  const about = { status: answer.status, retryAfter: answer.headers.get("Retry-After") };
  let body = null;
  try {
    body = await answer.json();
  } catch {
    // No JSON: a proxy's page, or nothing at all. The status alone is told.
  }
  const sentence = body?.detail ?? body?.error?.message ?? body?.title;
  const known = typeof sentence === "string" && sentence;
  const later = about.retryAfter ? ` Try again in ${about.retryAfter} s.` : "";
  return new Fault(
    known ? sentence : `The server answered ${answer.status} and said nothing more.${later}`,
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
