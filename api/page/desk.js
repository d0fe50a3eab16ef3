// The desk: two recordings on one clock, either an epoch's output and its reference, or a sentence by
// two candidates.

import { complain, find, isNew, make, redraws, say } from "./elements.js";
import { player } from "./player.js";
import { bytes } from "./server.js";
import { decoded, keep, RATE, sounding } from "./sound.js";
import { ticks } from "./scales.js";
import { clear, marks, paint } from "./spectrogram.js";
import { SpokenText } from "./spoken_text.js";
import { Transport } from "./transport.js";
import { capital, clock, fileName, sampleInfo, spokenTime } from "./wording.js";

const TRACKS = ["output", "reference"];
const SAMPLE = { output: "output", reference: "reference" };
const STEP_SECONDS = 0.25;

export class Desk {
  #buffers = {};
  #wav = null;
  #shown = "";
  #loading = null;
  #names = SAMPLE;
  // Whether to play as soon as the recordings have been read.
  #waits = false;
  #text = new SpokenText(find("desk-text"));

  constructor() {
    this.transport = new Transport(() => this.#refresh());
    for (const track of TRACKS) {
      find(`play-${track}`).addEventListener("click", () => this.#press(track));
    }
    this.slider = find("position");
    this.lanes = this.slider.closest(".lanes");
    this.slider.addEventListener("input", () => this.transport.seek(Number(this.slider.value)));
    this.slider.addEventListener("keydown", (event) => this.#step(event));
    find("switch").addEventListener("click", () => this.transport.other());
    find("match").addEventListener("change", (event) => this.transport.match(event.target.checked));
    find("scale").addEventListener("change", () => this.draw());
    find("keep-output").addEventListener("click", () => this.#keep());
    // The desk's keys also work in the chosen row of a table.
    for (const part of [find("desk"), find("epochs-table"), find("judged-table")]) {
      part.addEventListener("keydown", (event) => this.#key(event));
      // Firefox presses a button when Space is released, even if its keydown was prevented.
      part.addEventListener("keyup", (event) => event.key === " " && this.#listens(event.target) && event.preventDefault());
      part.addEventListener("click", (event) => this.#clicked(event));
    }
    redraws(find("desk-works"), () => this.draw());
  }

  /** Whether somebody is listening, so that a new epoch must not replace the recordings. */
  get touched() {
    return this.transport.playing || this.transport.position > 0;
  }

  /** Plays what is on the desk, at the latest when it has been read. */
  playSoon() {
    sounding(); // Within the click, else the browser blocks the audio.
    this.#waits = true;
    if (!find("desk-works").hidden) this.#playNow();
  }

  #playNow() {
    if (!this.#waits) return;
    this.#waits = false;
    if (this.transport.names.includes("output")) this.transport.hear("output");
    this.transport.play();
  }

  /** Requests failed recordings again at the next show. */
  retry() {
    if (!find("desk-fault").hidden) this.#shown = "";
  }

  /**
   * Shows the sample of an epoch and its reference. epoch: one of a run's epochs, or null; isAwaited: whether
   * the sample may still be being spoken.
   */
  async show(run, epoch, isAwaited = false) {
    const sample = epoch?.sample ?? null;
    const silent = epoch && !sample?.output;
    await this.put({
      key: epoch ? JSON.stringify([run, epoch.epoch, sample?.output, sample?.seconds, isAwaited]) : "",
      chosen: epoch?.epoch ?? null,
      title: epoch ? `Epoch ${epoch.epoch}` : "Listen",
      text: sample?.text ?? "",
      words: sample?.words ?? [],
      about: sampleInfo(sample),
      empty: !silent ? "" : !sample && isAwaited ? "Its sample is being spoken." : "This epoch has no sample.",
      urls: sample?.output ? { output: sample.output, reference: sample.reference } : null,
      names: SAMPLE,
      file: epoch ? fileName(run, "epoch", epoch.epoch, "output.wav") : null,
    });
  }

  /**
   * Shows two recordings. key: identifies them, "" for none; names: of the lanes; words: the upper one's
   * words with times; empty: why there is nothing to play; file: null if the upper one cannot be saved;
   * inTurn: whether the lower one plays after the upper one.
   */
  async put({ key, chosen, title, text, words = [], about, empty, urls, names, file, inTurn = false }) {
    say(find("desk-title"), title);
    this.#write(text, words);
    say(find("desk-info"), about);
    const renamed = isNew(this, "namesShown", names);
    this.#names = names;
    this.transport.inTurn = inTurn;
    find("keep-output").hidden = file === null;
    if (key === this.#shown) {
      if (renamed) this.draw();
      return this.#refresh();
    }
    this.#shown = key;
    this.chosen = chosen;
    this.transport.load({});
    // What is below stays where it is until the recordings have been read.
    find("desk").style.minHeight = urls ? `${find("desk").offsetHeight}px` : "";
    find("desk-works").hidden = true;
    complain(find("desk-fault"), null);
    find("desk-empty").hidden = key !== "" && !empty;
    if (empty) say(find("desk-empty"), empty);
    return urls ? this.#load(urls, file, key) : undefined;
  }

  /** Sets the text only if it changes, so that a marked word stays marked. */
  #write(text, words) {
    if (!isNew(this, "textShown", [text, words])) return;
    this.#text.show(text);
    this.#text.add(words);
  }

  async #load(urls, file, key) {
    this.#loading = key;
    const results = await Promise.allSettled(TRACKS.map(async (track) => {
      if (!urls[track]) return null;
      const wav = await bytes(urls[track]);
      if (track === "output") this.#wav = { bytes: wav.slice(0), name: file };
      return decoded(wav);
    }));
    if (this.#loading !== key || this.#shown !== key) return;
    const failed = results.find((result) => result.status === "rejected");
    complain(find("desk-fault"), failed?.reason ?? null);
    this.#buffers = Object.fromEntries(results.map((result, i) => [TRACKS[i], result.value ?? null]));
    find("desk-works").hidden = TRACKS.every((track) => !this.#buffers[track]);
    find("desk").style.minHeight = "";
    this.transport.load(this.#buffers);
    this.draw();
    this.#playNow();
  }

  /** Draws the spectrograms in the current colours and sizes. */
  draw() {
    if (find("desk-works").hidden) return;
    rule(this.transport.duration);
    const scale = find("scale").value;
    for (const track of TRACKS) {
      const canvas = find(`sheet-${track}`);
      const buffer = this.#buffers[track];
      if (!buffer) {
        clear(canvas);
        continue;
      }
      paint(canvas, buffer.getChannelData(0), RATE, { scale, share: buffer.duration / this.transport.duration });
      canvas.setAttribute("aria-label",
        `Spectrogram of the ${this.#names[track]}, ${spokenTime(buffer.duration)}, ${scale} scale`);
      label(canvas.parentElement.querySelector(".axis"), scale);
    }
  }

  #press(track) {
    const { transport } = this;
    if (transport.audible === track) return transport.toggle();
    transport.hear(track);
    return transport.play();
  }

  #step(event) {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -8, PageUp: 8 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.transport.seek(this.transport.position + by * STEP_SECONDS);
  }

  // Only with the focus on the desk: single letters must do nothing elsewhere (WCAG 2.1.4).
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || find("desk-works").hidden) return;
    const onDesk = find("desk").contains(event.target) && event.target.tagName !== "SELECT";
    const listens = this.#listens(event.target);
    if (event.key.toLowerCase() === "x" && (onDesk || listens)) this.transport.other();
    else if (event.key === " " && listens) this.transport.toggle();
    else return;
    event.preventDefault();
  }

  /** Whether Space plays here instead of pressing: on the desk itself, the slider, the chosen epoch. */
  #listens(target) {
    return target === find("desk") || target === this.slider || target.matches(".epoch[aria-pressed='true']");
  }

  /** After a click (Enter and Space have no detail) the focus returns to the desk. */
  #clicked(event) {
    const pressed = event.target.closest("#switch, .epoch, tr[data-epoch], tr[data-candidate], #judgement > .row button, #desk-works input[type='checkbox']");
    if (event.detail > 0 && pressed && !event.target.closest(".serve button")) find("desk").focus({ preventScroll: true });
  }

  #keep() {
    if (this.#wav) keep(new Blob([this.#wav.bytes], { type: "audio/wav" }), this.#wav.name);
  }

  /** Who is heard: for an epoch's sample, the epoch or the person. */
  get #by() {
    const { audible } = this.transport;
    if (this.#names !== SAMPLE) return capital(this.#names[audible]);
    return audible === "output" ? find("desk-title").textContent : "The person";
  }

  #refresh() {
    const { transport } = this;
    for (const track of TRACKS) {
      const heard = transport.audible === track;
      const button = find(`play-${track}`);
      const lane = button.closest(".lane");
      say(find(`name-${track}`), capital(this.#names[track]));
      lane.classList.toggle("heard", heard);
      button.classList.toggle("playing", heard && transport.playing);
      button.disabled = !transport.names.includes(track);
      button.setAttribute("aria-label", `${heard && transport.playing ? "Pause" : "Play"} ${this.#names[track]}`);
      const seconds = this.#buffers[track]?.duration;
      say(find(`seconds-${track}`), seconds ? `${seconds.toFixed(1)} s` : "");
    }
    if (transport.playing) player.take(transport, { title: find("desk-text").textContent, by: this.#by, save: this.#wav?.name ? () => this.#keep() : null });
    else player.refresh();
    for (const button of document.querySelectorAll(".row-play")) {
      const plays = transport.playing && button.closest("tr").classList.contains("selected");
      button.classList.toggle("playing", plays);
      button.setAttribute("aria-label", `${plays ? "Pause" : "Play"} ${button.dataset.of}`);
    }
    const other = transport.names.find((name) => name !== transport.audible);
    find("switch").disabled = !other;
    find("switch").firstChild.textContent = `Switch to ${this.#names[other] ?? "the other"} `;
    say(find("length"), clock(transport.duration));
    this.slider.max = String(transport.duration || 1);
    this.#frame();
  }

  #frame() {
    const { transport } = this;
    transport.tick();
    const { position, duration } = transport;
    this.slider.value = String(position);
    this.slider.setAttribute("aria-valuetext",
      `${spokenTime(position)} of ${spokenTime(duration)}, ${this.#names[transport.audible]}`);
    say(find("now"), clock(position));
    this.#text.mark(transport.audible === "output" && position > 0 ? position : null);
    this.lanes.style.setProperty("--position", `${duration ? (100 * position) / duration : 0}%`);
    cancelAnimationFrame(this.waiting);
    if (transport.playing) this.waiting = requestAnimationFrame(() => this.#frame());
  }
}

/** The ticks in seconds under the lanes. */
function rule(duration) {
  const ruler = find("ruler");
  ruler.replaceChildren(...ticks(0, duration * 0.97, ruler.clientWidth / 90).map((seconds) => {
    const mark = make("span", { text: `${seconds} s` });
    mark.style.left = `${(100 * seconds) / duration}%`;
    return mark;
  }));
}

function label(axis, scale) {
  if (!isNew(axis.dataset, "scale", scale)) return;
  axis.replaceChildren(...marks(scale).map(({ hertz, place }) => {
    const mark = make("span", { text: hertz >= 1000 ? `${hertz / 1000} kHz` : `${hertz} Hz` });
    mark.style.bottom = `${100 * place}%`;
    return mark;
  }));
}
