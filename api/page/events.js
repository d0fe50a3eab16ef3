// Event streams: the server's events, with polling as a fallback, and the audio and word times of speech.
//
// EventSource cannot send a key, so fetch reads them.

import { Fault, request } from "./server.js";

const POLL_MILLISECONDS = 3000;
const LONGEST_WAIT_MILLISECONDS = 15000;
// The server sends regular comments: a longer silence means a dead connection.
const SILENCE_MILLISECONDS = 45000;

/** A block of an event stream -> {event, data}; null for a comment. Pure. */
export function parsed(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const [, field, value] = /^([^:]*)(?:: ?(.*))?$/.exec(line) ?? [];
    if (field === "event") event = value ?? "";
    if (field === "data") data.push(value ?? "");
  }
  return data.length ? { event, data: data.join("\n") } : null;
}

/** The blocks of an event stream. read: as the method of a text reader. */
export async function* blocks(read) {
  let rest = "";
  for (;;) {
    const { value, done } = await read();
    if (done) return;
    const found = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = found.pop();
    yield* found;
  }
}

/**
 * Calls heard({event, data}) at every event, poll() repeatedly while events are unavailable, and
 * connected(boolean) when that changes. Returns only if the server has no events; polling continues.
 */
export async function listen({ heard, poll, connected }) {
  let wait = 1000;
  let open = false;
  setInterval(() => !open && !document.hidden && poll(), POLL_MILLISECONDS);
  const tell = (now) => {
    if (open !== now) connected((open = now));
  };
  for (;;) {
    try {
      await follow((event) => {
        wait = 1000;
        heard(event);
      }, () => tell(true));
    } catch (error) {
      // 404: the server has no events, so keep polling. Any other error: try again.
      if (error.status === 404) return;
    }
    tell(false);
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, LONGEST_WAIT_MILLISECONDS);
  }
}

async function follow(heard, opened) {
  const giveUp = new AbortController();
  let silence = null;
  const alive = () => {
    clearTimeout(silence);
    silence = setTimeout(() => giveUp.abort(), SILENCE_MILLISECONDS);
  };
  alive();
  try {
    const answer = await request("/events", {
      headers: { Accept: "text/event-stream" },
      signal: giveUp.signal,
    });
    opened();
    const reader = textOf(answer);
    const read = async () => {
      const part = await reader.read();
      alive();
      return part;
    };
    for await (const block of blocks(read)) {
      const event = parsed(block);
      if (event) heard(event);
    }
  } finally {
    clearTimeout(silence);
  }
}

const textOf = (answer) => answer.body.pipeThrough(new TextDecoderStream()).getReader();

/** Reads the words and the audio of an event stream; take null: returns the whole audio. */
export async function heard(answer, words, take) {
  const whole = [];
  const reader = textOf(answer);
  for await (const block of blocks(() => next(reader))) {
    const message = JSON.parse(parsed(block)?.data ?? "{}");
    if (message.type === "speech.audio.words") words(message.words);
    if (message.type === "speech.audio.delta") (take ?? ((bytes) => whole.push(bytes)))(fromBase64(message.audio));
    if (message.type === "speech.audio.done") return take ? null : new Uint8Array(await new Blob(whole).arrayBuffer());
  }
  throw brokenOff();
}

/** reader.read(), with a Fault for a body that ends too early. */
export async function next(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw brokenOff();
  }
}

function brokenOff() {
  return new Fault("The speech stopped early: the speaking process or the connection ended. Press Speak again; the service restarts the process automatically.");
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
