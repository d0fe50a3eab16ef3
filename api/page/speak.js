// The speak box: plays a sentence while it is still being generated.

import { announce, calmly, complain, find, options, redraws, say, sends } from "./elements.js";
import { heard, next } from "./events.js";
import { read, request } from "./server.js";
import { History } from "./history.js";
import { offerCopies, showRequest } from "./request_text.js";
import { keep, pcmOf, RATE, wavOf } from "./sound.js";
import { clear, paint } from "./spectrogram.js";
import { SpokenText } from "./spoken_text.js";
import { Stream } from "./stream.js";
import { fileName, languageOptions } from "./wording.js";

const NUMBERS = ["speed", "temperature", "seed"];
const BAD_REQUEST = 400;
// The service's limit.
export const MOST_CHARACTERS = 4096;
const SERVED = "/v1/audio/speech";
// Requests the audio as it is generated, and the times of its words.
const AS_EVENTS = { stream_format: "sse", timestamp_granularities: ["word"] };

// The formats that players open, in the order of the list.
const NAMES = { wav: "WAV", mp3: "MP3", flac: "FLAC", opus: "Opus", m4a: "AAC (M4A)" };

/** "120 of 4,096 characters", and the number above the limit, as the service counts characters. Pure. */
export function counting(text) {
  const characters = [...text].length;
  const over = characters - MOST_CHARACTERS;
  const grouped = (number) => number.toLocaleString("en");
  return { over, told: `${grouped(characters)} of ${grouped(MOST_CHARACTERS)} characters${over > 0 ? `: ${grouped(over)} too many` : ""}` };
}

/** How a request ended early. seconds: of its sound; before: of the speech that the box holds. Pure. */
export function endInfo(stopped, seconds, before) {
  if (seconds) return `${stopped ? "Stopped" : "Interrupted"} after ${seconds.toFixed(1)} s.`;
  return `${stopped ? "Stopped" : "Nothing was spoken"}${before ? "; the speech before it is still here" : ""}.`;
}

/** Requests speech. */
function speech(path, body, signal) {
  const headers = { "Content-Type": "application/json", Accept: "audio/*, application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

/** The voice that spoke an answer; the header is percent-encoded. Pure. */
export const modelOf = (answer) => decodeURIComponent(answer.headers.get("X-Model") ?? "");

export class SpeakBox {
  #stream = null;
  #abort = null;
  #model = null;
  #saving = new Saving();
  #text = new SpokenText(find("spoken-text"));

  constructor() {
    find("speak-form").addEventListener("submit", (event) => {
      event.preventDefault();
      // The button reads "Stop" while the service speaks; Ctrl+Enter has no submitter and always speaks.
      if (this.#abort && event.submitter) this.stop();
      else this.#speak(event.target);
    });
    find("again").addEventListener("click", () => (this.#playing ? this.stop() : this.#replay()));
    find("take").addEventListener("click", () => this.#anotherTake());
    find("text").addEventListener("keydown", (event) => {
      if (sends(event)) find("speak-form").requestSubmit();
    });
    find("text").addEventListener("input", () => this.#count());
    this.#count();
    this.history = new History((request) => this.#restore(request));
    offerCopies();
    for (const event of ["input", "change", "toggle"]) find("speak").addEventListener(event, () => this.#write(), true);
    redraws(find("spoken-works"), () => this.#draw());
  }

  /** Offers the languages of the served voice and the formats of /status. */
  offer({ languages, formats }) {
    options(find("language"), [{ value: "", text: "Default" }, ...languageOptions(languages)]);
    this.#saving.offer(formats);
  }

  /** The name of the chosen candidate if it speaks without being served, else "". */
  get alone() {
    const chosen = find("voice").selectedOptions[0];
    return chosen?.value.startsWith("/v1/runs/") ? chosen.text.charAt(0).toLowerCase() + chosen.text.slice(1) : "";
  }

  /** Counts the characters, and disables Speak for a text that is too long. */
  #count() {
    const { over, told } = counting(find("text").value);
    say(find("text-count"), told);
    find("text-count").classList.toggle("over", over > 0);
    find("text").setCustomValidity(over > 0 ? `The text has ${told}. Cut it, or speak it in parts.` : "");
  }

  /** The path of the request. */
  get #path() {
    return this.alone ? find("voice").value : SERVED;
  }

  stop() {
    this.#abort?.abort();
    this.#stream?.stop();
  }

  /** Whether the last speech is played. */
  get #playing() {
    return this.#stream !== null && !this.#stream.done;
  }

  /** Speaks the form. The box is free again when the service has finished, while the sound still plays. */
  async #speak(form) {
    const wanted = this.#request(form);
    const path = this.#path;
    const began = performance.now();
    const stream = new Stream(); // Within the click, else the browser blocks the audio.
    const abort = this.#begin();
    let [spokenBy, mark] = [null, ""];
    try {
      const answer = await this.#answer(wanted, path);
      spokenBy = modelOf(answer.answer);
      mark = answer.answer.headers.get("X-AI-Generated") ?? "";
      this.history.add(this.#entry(wanted, path));
      const firstSeconds = await this.#receive(answer, stream, began, () => this.#show(wanted.input, stream));
      if (abort === this.#abort) this.#tell(stream, firstSeconds, (performance.now() - began) / 1000);
    } catch (error) {
      stream.end();
      if (abort === this.#abort) this.#broken(error, stream);
    }
    // A newer request may have taken the place of this one.
    if (abort === this.#abort) this.#end(stream, { path, body: { model: this.#model, ...wanted }, spokenBy, mark });
  }

  /** Handles an early end; the audio so far can be played again. */
  #broken(error, stream) {
    const stopped = error.name === "AbortError";
    if (stopped) announce("Stopped.");
    else complain(find("speak-fault"), error);
    say(find("spoken-info"), endInfo(stopped, stream.seconds, this.#stream?.seconds ?? 0));
    this.#draw();
  }

  /** Speaks again with the next seed, and shows it in its field. */
  #anotherTake() {
    const form = find("speak-form");
    const seed = form.elements.seed;
    seed.value = String(Number(seed.value || 0) + 1);
    form.requestSubmit();
  }

  #request(form) {
    const given = new FormData(form);
    const wanted = { input: given.get("input"), voice: this.alone ? "default" : given.get("voice") || "default" };
    if (given.get("language")) wanted.language = given.get("language");
    for (const name of NUMBERS) if (given.get(name) !== "") wanted[name] = Number(given.get(name));
    return wanted;
  }

  /** Writes the form as a curl command and as Python, in the format of *Save as*. */
  #write() {
    if (!find("request").open) return;
    showRequest(this.#path, { ...this.#request(find("speak-form")), response_format: this.#saving.format });
  }

  /** The request as the history keeps it: a candidate's request has the voice "default", and a path of its own. */
  #entry(wanted, path) {
    const { text } = find("voice").selectedOptions[0] ?? {};
    return { ...wanted, voice: path === SERVED ? wanted.voice : path, who: text ?? "" };
  }

  #restore({ input, voice, language, who, ...numbers }) {
    const { elements } = find("speak-form");
    elements.input.value = input;
    this.#count();
    const isThere = [...elements.voice.options].some((one) => one.value === voice);
    if (isThere) elements.voice.value = voice;
    complain(find("speak-fault"), isThere ? null : { message: `${who || voice} is not in the list of voices now. Choose another voice.` });
    elements.language.value = language ?? "";
    for (const name of NUMBERS) elements[name].value = numbers[name] ?? "";
    elements.voice.dispatchEvent(new Event("change", { bubbles: true }));
    elements.input.focus();
  }

  async #answer(wanted, path) {
    const { signal } = this.#abort;
    this.#model ??= (await read("/v1/models")).data?.[0]?.id ?? "sotaque";
    const ask = (response_format) =>
      speech(path, { model: this.#model, ...wanted, response_format, ...AS_EVENTS }, signal);
    try {
      return { answer: await ask("pcm"), streams: true };
    } catch (error) {
      // Fall back to WAV, which is PCM after a header.
      if (error.status !== BAD_REQUEST || !/format|pcm/i.test(`${error.code} ${error.message}`)) throw error;
      return { answer: await ask("wav"), streams: false };
    }
  }

  /** Plays the audio as it arrives; returns the seconds until it began. show: called before the first of it. */
  async #receive({ answer, streams }, stream, began, show) {
    let first = null;
    const early = [];
    const draw = calmly(() => this.#draw(), 200);
    const take = (bytes) => {
      if (!bytes.length) return;
      if (first === null) show();
      first ??= (performance.now() - began) / 1000;
      this.#text.add(early.splice(0));
      stream.push(bytes);
      draw();
    };
    if (/event-stream/.test(answer.headers.get("Content-Type") ?? "")) {
      const add = (words) => (first === null ? early.push(...words) : this.#text.add(words));
      const sound = await heard(answer, add, streams ? take : null);
      if (sound) take(pcmOf(sound));
    } else if (streams && answer.body) {
      const reader = answer.body.getReader();
      for (let part = await next(reader); !part.done; part = await next(reader)) take(part.value);
    } else {
      const whole = new Uint8Array(await answer.arrayBuffer());
      take(streams ? whole : pcmOf(whole));
    }
    stream.end();
    this.#draw();
    return first;
  }

  /** Ends what is spoken or played. The last speech stays until the new one has sound. */
  #begin() {
    this.stop();
    this.#abort = new AbortController();
    complain(find("speak-fault"), null);
    say(find("say"), "Stop");
    say(find("spoken-info"), "Speaking …");
    this.#enable(false);
    return this.#abort;
  }

  /** said: the request, the voice that answered, and the mark of its speech. */
  #end(stream, said) {
    this.#abort = null;
    say(find("say"), "Speak");
    if (stream.seconds) this.#saving.spoken({ ...said, pieces: stream.pieces, name: fileName("sotaque", said.body.input.slice(0, 40)) });
    this.#enable(this.#stream !== null);
  }

  #show(text, stream) {
    this.#text.show(text);
    clear(find("sheet-spoken"));
    this.#play(stream);
  }

  /** Makes this stream the one that is played. */
  #play(stream) {
    this.#stream = stream;
    say(find("again"), "Stop sound");
    stream.finished.then(() => stream === this.#stream && say(find("again"), "Play again"));
    this.#playhead();
  }

  #enable(on) {
    for (const id of ["take", "again", "keep-spoken"]) find(id).disabled = !on;
  }

  #tell(stream, firstSeconds, tookSeconds) {
    const gaps = stream.gaps ? ` Playback paused ${stream.gaps === 1 ? "once" : `${stream.gaps} times`}.` : "";
    say(find("spoken-info"), stream.seconds
      ? `First sound after ${firstSeconds.toFixed(2)} s; ${stream.seconds.toFixed(1)} s spoken in ${tookSeconds.toFixed(1)} s.${gaps}`
      : "The server sent no sound.");
  }

  #replay() {
    const { pieces } = this.#stream;
    const stream = new Stream();
    for (const piece of pieces) stream.push(piece);
    stream.end();
    this.#play(stream);
  }

  #draw() {
    if (!this.#stream?.seconds) return;
    const canvas = find("sheet-spoken");
    paint(canvas, this.#stream.samples(), RATE);
    canvas.setAttribute("aria-label", `Spectrogram of the speech, ${this.#stream.seconds.toFixed(1)} seconds`);
  }

  #playhead() {
    const stream = this.#stream;
    const line = find("spoken-playhead");
    cancelAnimationFrame(this.waiting);
    const move = () => {
      line.style.left = `${stream.seconds ? (100 * stream.position) / stream.seconds : 0}%`;
      line.dataset.seconds = stream.position.toFixed(2);
      if (stream === this.#stream) this.#text.mark(stream.done ? null : stream.position);
      if (stream === this.#stream && !stream.done) this.waiting = requestAnimationFrame(move);
    };
    move();
  }
}

/**
 * Saves the speech as a file. The page writes WAV from its samples. For other formats, the service speaks
 * again with the same seed, which gives the same speech, and sends it whole, so that the file has its length.
 */
class Saving {
  #spoken = null;

  constructor() {
    this.offer();
    find("keep-spoken").addEventListener("click", () => this.#save());
  }

  /** formats: of /status. */
  offer(formats = ["wav"]) {
    const offered = Object.keys(NAMES).filter((name) => name === "wav" || formats.includes(name));
    options(find("format"), offered.map((value) => ({ value, text: NAMES[value] })));
  }

  get format() {
    return find("format").value;
  }

  /** spoken: the samples (pieces), the file name without its extension, the request, and the voice that answered with its mark. */
  spoken(spoken) {
    this.#spoken = spoken;
  }

  async #save() {
    const { pieces, name, mark } = this.#spoken;
    const form = this.format;
    if (form === "wav") return keep(wavOf(pieces, mark), `${name}.wav`);
    const button = find("keep-spoken");
    button.disabled = true;
    say(button, "Saving …");
    try {
      await this.#saveAs(form, this.#spoken);
    } catch (error) {
      complain(find("speak-fault"), error);
    } finally {
      button.disabled = false;
      say(button, "Save");
    }
    return undefined;
  }

  async #saveAs(form, { path, body, spokenBy, name }) {
    const answer = await speech(path, { ...body, response_format: form, stream: false });
    const now = modelOf(answer);
    keep(await answer.blob(), `${name}.${form}`);
    complain(find("speak-fault"), null);
    if (now === spokenBy) announce(`Saved as ${NAMES[form]}.`);
    else complain(find("speak-fault"), { message: `The served voice has changed: the file is spoken by ${now}. Press Speak to hear it.` });
  }
}
