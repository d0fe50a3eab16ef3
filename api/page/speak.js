// The speak box: a sentence, and the sound of it while it is still being spoken.

import { announce, calmly, complain, find, make, say } from "./elements.js";
import { Fault, read, request } from "./server.js";
import { keep, pcmOf, RATE, sounding, wavOf } from "./sound.js";
import { clear, paint } from "./spectrogram.js";
import { Stream } from "./stream.js";
import { fileName } from "./wording.js";

// The languages of XTTS-v2; the server refuses those that its model was not made for.
const LANGUAGES = ["ar", "cs", "de", "en", "es", "fr", "hi", "hu", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh-cn"];
const NUMBERS = ["speed", "temperature", "seed"];
const BAD_REQUEST = 400;
const SERVED = "/v1/audio/speech";

export class SpeakBox {
  #stream = null;
  #abort = null;
  #model = null;
  #spoken = null;

  constructor() {
    this.offer(LANGUAGES);
    find("speak-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#abort) this.stop();
      else this.#speak(event.target);
    });
    find("again").addEventListener("click", () => this.#replay());
    find("take").addEventListener("click", () => this.#anotherTake());
    find("keep-spoken").addEventListener("click", () => keep(this.#spoken.wav, this.#spoken.name));
    find("text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) find("speak-form").requestSubmit();
    });
    const redraw = () => this.#draw();
    new ResizeObserver(redraw).observe(find("spoken-works"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }

  /** languages: the codes that the served voice speaks; empty: all of XTTS-v2's. */
  offer(languages) {
    const codes = languages?.length ? languages : LANGUAGES;
    const select = find("language");
    if (select.dataset.codes === codes.join()) return;
    const before = select.value;
    const names = new Intl.DisplayNames(["en"], { type: "language" });
    const named = codes.map((code) => ({ code, name: names.of(code) }));
    named.sort((a, b) => a.name.localeCompare(b.name));
    select.replaceChildren(make("option", { value: "", text: "The voice's own" }),
      ...named.map(({ code, name }) => make("option", { value: code, text: name })));
    select.dataset.codes = codes.join();
    if (codes.includes(before)) select.value = before;
  }

  /** The candidate that is to speak for this page alone, as its choice is called; "" for none. */
  get alone() {
    const chosen = find("voice").selectedOptions[0];
    return chosen?.value.startsWith("/v1/runs/") ? chosen.text.charAt(0).toLowerCase() + chosen.text.slice(1) : "";
  }

  stop() {
    this.#abort?.abort();
    this.#stream?.stop();
  }

  async #speak(form) {
    const wanted = this.#request(form);
    const began = performance.now();
    sounding(); // Within the click, or the browser keeps the sound back.
    this.#begin();
    try {
      const answer = await this.#answer(wanted, this.alone ? find("voice").value : SERVED);
      this.#show();
      const stream = (this.#stream = new Stream());
      const firstSeconds = await this.#receive(answer, stream, began);
      this.#tell(stream, firstSeconds, (performance.now() - began) / 1000);
      await stream.finished;
    } catch (error) {
      this.#broken(error);
    } finally {
      this.#end(fileName("sotaque", wanted.input.slice(0, 40)));
    }
  }

  /** What was heard until then stays, and can be played again. */
  #broken(error) {
    const heard = this.#stream?.seconds ?? 0;
    this.#stream?.end();
    const stopped = error.name === "AbortError";
    if (stopped) announce("Stopped.");
    else complain(find("speak-fault"), error);
    const after = heard ? ` after ${heard.toFixed(1)} s` : "";
    say(find("spoken-told"), `${stopped ? "Stopped" : "Broken off"}${after}.`);
    this.#draw();
  }

  /** The same once more with the next seed, which then stands in its field. */
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

  async #answer(wanted, path) {
    this.#model ??= (await read("/v1/models")).data?.[0]?.id ?? "sotaque";
    const ask = (response_format) => request(path, {
      method: "POST",
      signal: this.#abort.signal,
      headers: { "Content-Type": "application/json", Accept: "audio/*, application/json" },
      body: JSON.stringify({ model: this.#model, ...wanted, response_format, stream_format: "audio" }),
    });
    try {
      return { answer: await ask("pcm"), streams: true };
    } catch (error) {
      // A server that has no pcm has wav, which is the same behind a header.
      if (error.status !== BAD_REQUEST || !/format|pcm/i.test(`${error.code} ${error.message}`)) throw error;
      return { answer: await ask("wav"), streams: false };
    }
  }

  /** Plays what comes; returns the seconds until the first of it. */
  async #receive({ answer, streams }, stream, began) {
    let first = null;
    const draw = calmly(() => this.#draw(), 200);
    const take = (bytes) => {
      if (!bytes.length) return;
      first ??= (performance.now() - began) / 1000;
      stream.push(bytes);
      draw();
    };
    this.#playhead();
    if (streams && answer.body) {
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
    this.#abort = new AbortController();
    this.#stream?.stop();
    this.#stream = null;
    complain(find("speak-fault"), null);
    say(find("say"), "Stop");
    say(find("spoken-told"), "Speaking …");
    this.#enable(false);
  }

  #end(name) {
    this.#abort = null;
    say(find("say"), "Speak");
    const pieces = this.#stream?.pieces ?? [];
    this.#spoken = pieces.length ? { wav: wavOf(pieces), name: `${name}.wav` } : null;
    this.#enable(pieces.length > 0);
    if (!pieces.length) find("spoken-works").hidden = true;
  }

  #show() {
    find("spoken-works").hidden = false;
    clear(find("sheet-spoken"));
  }

  #enable(on) {
    for (const id of ["take", "again", "keep-spoken"]) find(id).disabled = !on;
  }

  #tell(stream, firstSeconds, tookSeconds) {
    const gaps = stream.gaps ? ` It waited for more ${stream.gaps === 1 ? "once" : `${stream.gaps} times`}.` : "";
    say(find("spoken-told"), stream.seconds
      ? `First sound after ${firstSeconds.toFixed(2)} s; ${stream.seconds.toFixed(1)} s spoken in ${tookSeconds.toFixed(1)} s.${gaps}`
      : "The server sent no sound.");
  }

  #replay() {
    const { pieces } = this.#stream;
    this.#stream.stop();
    this.#stream = new Stream();
    for (const piece of pieces) this.#stream.push(piece);
    this.#stream.end();
    this.#playhead();
  }

  #draw() {
    if (!this.#stream?.seconds || find("spoken-works").hidden) return;
    const canvas = find("sheet-spoken");
    paint(canvas, this.#stream.samples(), RATE);
    canvas.setAttribute("aria-label", `Spectrogram of what was spoken, ${this.#stream.seconds.toFixed(1)} seconds`);
  }

  #playhead() {
    const stream = this.#stream;
    const line = find("spoken-playhead");
    cancelAnimationFrame(this.waiting);
    const move = () => {
      line.style.left = `${stream.seconds ? (100 * stream.position) / stream.seconds : 0}%`;
      line.dataset.seconds = stream.position.toFixed(2);
      if (stream === this.#stream && !stream.done) this.waiting = requestAnimationFrame(move);
    };
    move();
  }
}

/** reader.read(); a body that ends too early is told as what it means here. */
async function next(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Fault("The speech broke off: the speaking process ended, or the connection did. Speak it again; the service starts another process by itself.");
  }
}
