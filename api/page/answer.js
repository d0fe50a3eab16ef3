// The answer of a speech while it comes: its sound, and the times of its words.

import { blocks, parsed } from "./events.js";
import { Fault } from "./server.js";

/** Takes the words and the sound of an event stream; take null: returns the sound as a whole. */
export async function heard(answer, words, take) {
  const whole = [];
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for await (const block of blocks(() => next(reader))) {
    const told = JSON.parse(parsed(block)?.data ?? "{}");
    if (told.type === "speech.audio.words") words(told.words);
    if (told.type === "speech.audio.delta") (take ?? ((bytes) => whole.push(bytes)))(fromBase64(told.audio));
    if (told.type === "speech.audio.done") return take ? null : new Uint8Array(await new Blob(whole).arrayBuffer());
  }
  throw brokenOff();
}

/** reader.read(); a body that ends too early is told as what it means here. */
export async function next(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw brokenOff();
  }
}

function brokenOff() {
  return new Fault("The speech broke off: the speaking process ended, or the connection did. Speak it again; the service starts another process by itself.");
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
