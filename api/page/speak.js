// The speak box: plays a sentence while it is still being generated.

import { announce, calmly, complain, find, options, redraws, say, sends } from "./elements.js";
import { heard, next } from "./events.js";
import { read, request } from "./server.js";
import { player } from "./player.js";
import { offerCopies, showRequest } from "./request_text.js";
import { bufferOf, fromPcm, keep, pcmOf, RATE, wavOf } from "./sound.js";
import { clear, paint } from "./spectrogram.js";
import { SpokenText } from "./spoken_text.js";
import { Stream } from "./stream.js";
import { aboutRequest, Takes } from "./takes.js";
import { Transport } from "./transport.js";
import { fileName, grouped, languageOptions } from "./wording.js";

const NUMBERS = ["speed", "temperature", "seed"];
const BAD_REQUEST = 400;
// The service's limit.
export const MAX_CHARACTERS = 4096;
const SERVED = "/v1/audio/speech";
// Requests the audio as it is generated, and the times of its words.
const AS_EVENTS = { stream_format: "sse", timestamp_granularities: ["word"] };

// The formats that players open, in the order of the list.
const NAMES = { wav: "WAV", mp3: "MP3", flac: "FLAC", opus: "Opus", m4a: "AAC (M4A)" };

/** "120 of 4,096 characters", and the number above the limit, as the service counts characters. Pure. */
export function counting(text) {
  const characters = [...text].length;
  const over = characters - MAX_CHARACTERS;
  return { over, told: `${grouped(characters)} of ${grouped(MAX_CHARACTERS)} characters${over > 0 ? `: ${grouped(over)} too many` : ""}` };
}

/** How a request ended early. seconds: of its sound; before: of the speech that the box holds. Pure. */
export function endInfo(stopped, seconds, before) {
  if (seconds) return `${stopped ? "Stopped" : "Interrupted"} after ${seconds.toFixed(1)} s.`;
  return `${stopped ? "Stopped" : "Nothing was spoken"}${before ? "; the speech before it is still here" : ""}.`;
}

/** The bytes of all pieces. */
function joined(pieces) {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
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
  // What the player says of the shown speech.
  #told = null;
  #saving = new Saving();
  #text = new SpokenText(find("spoken-text"));
  // The words of the shown speech so far, with their times.
  #words = [];
  #takes;

  constructor() {
    find("speak-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#speak(event.target);
    });
    find("stop").addEventListener("click", () => this.stop());
    find("again").addEventListener("click", () => this.#stream.toggle());
    find("take").addEventListener("click", () => this.#anotherTake());
    find("text").addEventListener("keydown", (event) => {
      if (sends(event)) find("speak-form").requestSubmit();
    });
    find("text").addEventListener("input", () => this.#count());
    this.#count();
    this.#takes = new Takes({
      play: (take, sound) => this.#playTake(take, sound),
      save: (take, sound) => this.#saving.save({ ...saidBy(take), pieces: [new Uint8Array(sound)] }),
      restore: (take) => this.#restore(take),
      compare: (take, sound) => this.#compare(take, sound),
    });
    offerCopies();
    for (const event of ["input", "change", "toggle"]) find("speak").addEventListener(event, () => this.#write(), true);
    seeks(find("spoken-sheet"), (share) => this.#stream?.seek(share * this.#stream.seconds));
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

  /** Ends what is generated and what is heard. */
  stop() {
    this.#abort?.abort();
    this.#stream?.stop();
  }

  /** Speaks the form, instead of what is spoken now. The last speech stays until the new one has sound. */
  async #speak(form) {
    const wanted = this.#request(form);
    const path = this.#path;
    const who = this.#who();
    const began = performance.now();
    const stream = new Stream((changed) => this.#changed(changed)); // Within the click, else the browser blocks the audio.
    const abort = this.#begin();
    const file = { path, name: nameOf(wanted.input), body: wanted, pieces: stream.pieces, spokenBy: null, mark: "" };
    let whole;
    file.whole = new Promise((resolve) => (whole = resolve));
    try {
      const { answer, streams } = await this.#answer(wanted, path);
      file.body = { model: this.#model, ...wanted };
      file.spokenBy = modelOf(answer);
      file.mark = answer.headers.get("X-AI-Generated") ?? "";
      const firstSeconds = await this.#receive({ answer, streams }, stream, began, () => this.#show(wanted.input, who, stream, file));
      if (abort === this.#abort) this.#tell(stream, firstSeconds, (performance.now() - began) / 1000);
      if (firstSeconds !== null) this.#keep(stream, { ...file, who, text: wanted.input });
    } catch (error) {
      stream.end();
      if (abort === this.#abort) this.#broken(error, stream);
    }
    whole();
    // A newer request may have taken the place of this one.
    if (abort !== this.#abort) return;
    this.#abort = null;
    find("stop").disabled = true;
    this.#enable();
  }

  /** Keeps a finished speech as a take. */
  async #keep(stream, { path, name, body, spokenBy, mark, who, text }) {
    const words = stream === this.#stream ? this.#words : [];
    const sound = joined(stream.pieces).buffer;
    stream.take = await this.#takes.add({ path, name, body, spokenBy, mark, who, text, words, seconds: stream.seconds }, sound);
    if (stream === this.#stream) this.#takes.mark(stream.take.id, stream.playing);
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

  /** Who speaks the form, as it is called on the page. */
  #who() {
    const option = find("voice").selectedOptions[0];
    return option?.value && option.value !== "default" ? option.text : find("speaker").dataset.voice || option?.text || "";
  }

  /** Fills in the form with a take, exactly as it was spoken. */
  #restore({ text, path, body, who }) {
    const { elements } = find("speak-form");
    elements.input.value = text;
    this.#count();
    const voice = path === SERVED ? body.voice : path;
    const isThere = [...elements.voice.options].some((one) => one.value === voice);
    if (isThere) elements.voice.value = voice;
    complain(find("speak-fault"), isThere ? null : { message: `${who || voice} is not in the list of voices now. Choose another voice.` });
    elements.language.value = body.language ?? "";
    for (const name of NUMBERS) elements[name].value = body[name] ?? "";
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
    const draw = calmly(() => stream === this.#stream && this.#draw(), 200);
    const add = (words) => {
      if (first === null) early.push(...words);
      else if (stream === this.#stream) this.#addWords(words);
    };
    const take = (bytes) => {
      if (!bytes.length) return;
      if (first === null) show();
      first ??= (performance.now() - began) / 1000;
      add(early.splice(0));
      stream.push(bytes);
      draw();
    };
    if (/event-stream/.test(answer.headers.get("Content-Type") ?? "")) {
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

  #begin() {
    this.stop();
    this.#abort = new AbortController();
    complain(find("speak-fault"), null);
    find("stop").disabled = false;
    say(find("spoken-info"), "Speaking …");
    find("take").disabled = true;
    return this.#abort;
  }

  #addWords(words) {
    this.#words.push(...words);
    this.#text.add(words);
  }

  /** Shows a speech, and makes it the one in the player. */
  #show(text, who, stream, file) {
    this.#words = [];
    this.#text.show(text);
    clear(find("sheet-spoken"));
    this.#stream = stream;
    this.#saving.spoken(file);
    this.#enable();
    this.#told = { title: text, by: who, save: () => this.#saving.save(file) };
    player.take(stream, this.#told);
    this.#changed(stream);
  }

  #playTake(take, sound) {
    if (this.#stream?.take === take && player.has(this.#stream)) return this.#stream.toggle();
    const pieces = [new Uint8Array(sound)];
    const stream = Stream.of(fromPcm(pieces[0]), (changed) => this.#changed(changed));
    Object.assign(stream, { pieces, take });
    this.#abort?.abort();
    complain(find("speak-fault"), null);
    this.#show(take.text, take.who, stream, { ...saidBy(take), pieces });
    this.#addWords(take.words);
    say(find("spoken-info"), `${take.who}, ${aboutRequest(take.body)}.`);
    this.#draw();
    return stream.play();
  }

  /** Plays a take in step with the shown speech, from the beginning; the player switches between them. */
  #compare(take, sound) {
    const shown = this.#stream;
    if (!shown?.take || shown.take === take) return complain(find("takes-fault"), { message: "Play another take first. This one is then compared with it." });
    complain(find("takes-fault"), null);
    const sides = { output: shown.take, reference: take };
    const pair = new Transport(() => {
      const { text, who, body, id } = sides[pair.audible];
      player.take(pair, { title: text, by: `${who}, ${aboutRequest(body)}` });
      this.#takes.mark(id, pair.playing);
    });
    pair.load({ output: bufferOf(shown.samples()), reference: bufferOf(fromPcm(new Uint8Array(sound))) });
    return pair.play();
  }

  /** Shows the state of the stream; called when it starts, stops, seeks or ends. */
  #changed(stream) {
    player.refresh();
    if (stream !== this.#stream) return;
    // The player may show another sound since.
    if (stream.playing && !player.has(stream)) player.take(stream, this.#told);
    say(find("again"), stream.playing ? "Pause" : "Play");
    if (stream.take) this.#takes.mark(stream.take.id, stream.playing);
    this.#playhead();
  }

  #enable() {
    for (const id of ["again", "keep-spoken"]) find(id).disabled = !this.#stream;
    find("take").disabled = !this.#stream || this.#abort !== null;
  }

  #tell(stream, firstSeconds, tookSeconds) {
    const gaps = stream.gaps ? ` Playback paused ${stream.gaps === 1 ? "once" : `${stream.gaps} times`}.` : "";
    say(find("spoken-info"), stream.seconds
      ? `First sound after ${firstSeconds.toFixed(2)} s; ${stream.seconds.toFixed(1)} s spoken in ${tookSeconds.toFixed(1)} s.${gaps}`
      : "The server sent no sound.");
  }

  #draw() {
    if (!this.#stream?.seconds) return;
    const canvas = find("sheet-spoken");
    paint(canvas, this.#stream.samples(), RATE);
    canvas.setAttribute("aria-label", `Spectrogram of the speech, ${this.#stream.seconds.toFixed(1)} seconds`);
    if (!this.#stream.whole) say(find("spoken-info"), `Speaking, ${this.#stream.seconds.toFixed(0)} s so far …`);
  }

  #playhead() {
    const stream = this.#stream;
    const line = find("spoken-playhead");
    cancelAnimationFrame(this.waiting);
    const move = () => {
      line.style.left = `${stream.seconds ? (100 * stream.position) / stream.seconds : 0}%`;
      line.dataset.seconds = stream.position.toFixed(2);
      this.#text.mark(stream.playing || stream.position < stream.seconds ? stream.position : null);
      if (stream === this.#stream && stream.playing) this.waiting = requestAnimationFrame(move);
    };
    move();
  }
}

const nameOf = (text) => fileName("sotaque", text.slice(0, 40));

/** What Saving needs of a take. */
const saidBy = ({ path, name, body, spokenBy, mark }) => ({ path, name, body, spokenBy, mark });

/** Calls act(share of the width) at a press or a drag on a box. */
function seeks(box, act) {
  const to = (event) => {
    const { left, width } = box.getBoundingClientRect();
    act(Math.min(1, Math.max(0, (event.clientX - left) / width)));
  };
  box.addEventListener("pointerdown", (event) => {
    box.setPointerCapture(event.pointerId);
    to(event);
  });
  box.addEventListener("pointermove", (event) => box.hasPointerCapture(event.pointerId) && to(event));
}

/**
 * Saves speech as a file. The page writes WAV from its samples. For other formats, the service speaks again
 * with the same seed, which gives the same speech, and sends it whole, so that the file has its length.
 */
class Saving {
  #spoken = null;

  constructor() {
    this.offer();
    find("keep-spoken").addEventListener("click", () => this.save(this.#spoken));
  }

  /** formats: of /status. */
  offer(formats = ["wav"]) {
    const offered = Object.keys(NAMES).filter((name) => name === "wav" || formats.includes(name));
    options(find("format"), offered.map((value) => ({ value, text: NAMES[value] })));
  }

  get format() {
    return find("format").value;
  }

  /** file: the shown speech, as for `save`. */
  spoken(file) {
    this.#spoken = file;
  }

  /**
   * file: the samples (pieces), the file name without its extension, the request (path, body), the voice that
   * answered with its mark; whole: settles when the speech has ended, which a file waits for.
   */
  async save(file) {
    const form = this.format;
    const button = find("keep-spoken");
    button.disabled = true;
    say(button, "Saving …");
    try {
      await file.whole;
      if (form === "wav") keep(wavOf(file.pieces, file.mark), `${file.name}.wav`);
      else await this.#saveAs(form, file);
    } catch (error) {
      complain(find("speak-fault"), error);
    } finally {
      button.disabled = false;
      say(button, "Save");
    }
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
