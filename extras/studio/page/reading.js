// Sentences to read aloud: one at a time, recorded, checked by the server, kept or read again.

import { announce, calmly, complain, complainOfRefresh, find, isNew, make, options, say, stored, store, tried, twice } from "../elements.js";
import { decibelsOf, LevelMeter, openMicrophone, recordFrom } from "../microphone.js";
import { bytes as fetchSound, read, request, send } from "../server.js";
import { datasetPath } from "./paths.js";
import { plays } from "../player.js";
import { bufferOf, decoded, drawSamples, toPcm, wavOf } from "../sound.js";
import { counted, figure } from "../wording.js";

// Longer than a clip may be, so that the server says how long it is.
const MAX_SECONDS = 20;
// An unused microphone is closed after this time.
const IDLE_MILLISECONDS = 60000;
const CHOSEN = "sotaque-reading";

export class Reading {
  #chosen = stored(CHOSEN)[0] ?? null;
  #sheet = null;
  #number = null;
  // {samples, body, found}: found is null while the server checks it.
  #take = null;
  #recording = null;
  #stream = null;
  #idle = null;
  #busy = false;
  #keepsWhenChecked = false;
  #hearing = {};

  constructor() {
    this.soon = calmly(() => this.refresh(), 1000);
    this.meter = new LevelMeter((level) => this.#showLevel(level));
    find("reading-form").addEventListener("submit", (event) => this.#begin(event));
    find("reading-dataset").addEventListener("change", (event) => this.#choose(event.target.value));
    const acts = { "reading-record": () => this.#toggle(), "reading-keep": () => this.#keep(), "reading-again": () => this.#again(), "reading-skip": () => this.#skip(), "reading-before": () => this.#step(-1), "reading-after": () => this.#step(1) };
    for (const [id, act] of Object.entries(acts)) {
      find(id).addEventListener("click", (event) => {
        act();
        // A click gives the keys back to the section; a press of Enter or Space has detail 0.
        if (event.detail > 0 || find(id).disabled) this.#focus();
      });
    }
    plays(find("reading-hear"), () => this.#sound(), { title: "Your recording", fault: "reading-fault", group: this.#hearing });
    twice(find("reading-delete"), "Delete the take", () => this.#delete());
    find("reading-works").addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("visibilitychange", () => document.hidden && !this.#recording && this.#close());
  }

  get #path() {
    return `${datasetPath(this.#chosen)}/prompts`;
  }

  get #prompt() {
    return this.#sheet?.prompts[this.#number - 1] ?? null;
  }

  async refresh() {
    if (this.#recording || this.#busy) return;
    try {
      const { datasets } = await read("/v1/datasets");
      const mine = datasets.filter((one) => one.read_aloud);
      const first = mine[0]?.id ?? null;
      if (first !== this.#chosen && !mine.some((one) => one.id === this.#chosen)) this.#choose(first, false);
      find("reading-choice").hidden = !mine.length;
      // The form is open while there is nothing to read.
      if (isNew(this, "hasAny", mine.length > 0)) find("reading-new").open = !mine.length;
      options(find("reading-dataset"), mine.map((one) => ({ value: one.id, text: one.name })));
      find("reading-dataset").value = this.#chosen ?? "";
      this.#sheet = this.#chosen && (await read(this.#path));
      if (this.#sheet && !this.#prompt) this.#number = this.#sheet.next ?? 1;
      this.#show();
      complainOfRefresh(find("reading-fault"), null);
    } catch (error) {
      // Another page has deleted the dataset.
      if (error.code === "no_dataset") this.#choose(null, false);
      complainOfRefresh(find("reading-fault"), error);
    }
  }

  /** Switches to another dataset, at its first open sentence. */
  #choose(id, now = true) {
    this.#discard();
    this.#chosen = id;
    this.#number = null;
    store(CHOSEN, id ? [id] : []);
    if (now) this.refresh();
  }

  async #begin(event) {
    event.preventDefault();
    const form = event.target;
    const { name, language, text } = form.elements;
    const own = text.value.trim();
    const made = await tried("reading-fault", async () => {
      const dataset = await send("POST", "/v1/datasets", { name: name.value, language: language.value });
      try {
        await send("PUT", `${datasetPath(dataset.id)}/prompts`, own ? { text: own } : {});
      } catch (error) {
        await send("DELETE", datasetPath(dataset.id));
        throw error;
      }
      return dataset;
    });
    if (!made) return;
    form.reset();
    this.#choose(made.id, false);
    await this.refresh();
    find("reading-works").scrollIntoView({ block: "nearest" });
    this.#focus();
  }

  #show() {
    const [sheet, prompt] = [this.#sheet, this.#prompt];
    find("reading-works").hidden = !prompt;
    if (!prompt) return;
    const text = find("reading-text");
    text.lang = sheet.language;
    say(text, prompt.text);
    const state = { open: "", kept: `Recorded, ${figure(prompt.seconds, 1)} s.`, skipped: "Skipped." }[prompt.state];
    say(find("reading-number"), `Sentence ${prompt.number} of ${sheet.prompts.length}. ${state}`.trim());
    const bar = find("reading-progress");
    [bar.max, bar.value] = [sheet.prompts.length, sheet.kept + sheet.skipped];
    const skipped = sheet.skipped ? `, ${sheet.skipped} skipped` : "";
    say(find("reading-count"), `${counted(sheet.kept, "sentence")} of ${sheet.prompts.length} recorded${skipped}.`);
    say(find("reading-more"), sheet.more);
    say(find("reading-checks"), sheet.recogniser ? "" : "Whether the words were said is not checked: there is no recogniser for this language.");
    this.#showTake();
  }

  #showTake() {
    const [take, prompt] = [this.#take, this.#prompt];
    const [recording, checking] = [Boolean(this.#recording), Boolean(take && !take.found)];
    const found = take ? take.found : prompt?.state === "kept" ? { ...prompt, usable: true } : null;
    find("reading-record").firstChild.textContent = recording ? "Stop " : "Record ";
    find("reading-keep").disabled = !recording && (!take || (take.found && !take.found.usable));
    find("reading-again").disabled = recording || !take;
    find("reading-skip").disabled = recording || prompt?.state === "kept";
    find("reading-before").disabled = recording || this.#number <= 1;
    find("reading-after").disabled = recording || this.#number >= (this.#sheet?.prompts.length ?? 1);
    find("reading-hear").disabled = recording || !(take || prompt?.sound);
    find("reading-delete").hidden = Boolean(take) || recording || prompt?.state === "open";
    find("reading-found").replaceChildren(...(found?.findings ?? []).map(({ sentence }) => make("li", { text: sentence })));
    say(find("reading-state"), this.#sentence(recording, checking, take));
    find("reading-wave").classList.toggle("waits", !take?.found);
    if (take?.found) drawSamples(find("reading-wave"), take.samples);
    if (recording || take) find("reading-works").scrollIntoView({ block: "nearest" });
  }

  #sentence(recording, checking, take) {
    if (recording) return "Recording. Read the sentence, then wait half a second.";
    if (checking) return "Checking.";
    if (!take) return "";
    if (!take.found.usable) return "Training cannot use this take: read it again.";
    const long = `${figure(take.found.seconds, 1)} s.`;
    return take.found.findings.length ? `${long} Read it again, or keep it all the same.` : `${long} Nothing is wrong with it: keep it.`;
  }

  #showLevel({ peak, clipped }) {
    const decibels = decibelsOf(peak);
    find("reading-level").value = decibels;
    // A separate line, not a live region: a screen reader would speak into the recording.
    const word = clipped ? "Clipping: lower the level, or move away." : decibels < -30 ? "Quiet" : "Good";
    say(find("reading-level-info"), this.#recording ? `${Math.round(decibels)} dB. ${word}` : clipped ? "It was clipped." : "");
    find("reading-meter").classList.toggle("clipped", clipped);
  }

  async #toggle() {
    if (this.#recording) return this.#recording.stop();
    if (this.#busy || !this.#prompt) return undefined;
    this.#busy = true;
    complain(find("reading-fault"), null);
    this.#discard();
    try {
      clearTimeout(this.#idle);
      if (!this.#stream?.active) this.#stream = await openMicrophone();
      this.#recording = recordFrom(this.#stream, { most: MAX_SECONDS });
      this.meter.open(this.#stream);
      this.#showTake();
      const samples = await this.#recording.samples;
      this.#ended();
      await this.#check(samples);
    } catch (error) {
      this.#ended();
      complain(find("reading-fault"), error);
      this.#showTake();
    }
    return undefined;
  }

  #ended() {
    this.#recording = null;
    this.#busy = false;
    this.meter.close();
    this.#idle = setTimeout(() => this.#close(), IDLE_MILLISECONDS);
  }

  /** Releases the microphone. */
  #close() {
    clearTimeout(this.#idle);
    this.#stream?.getTracks().forEach((track) => track.stop());
    this.#stream = null;
  }

  #put(number, body, query = "") {
    return request(`${this.#path}/${number}/take${query}`, { method: "PUT", body, headers: { "Content-Type": "audio/wav" } }).then((answer) => answer.json());
  }

  async #check(samples) {
    const take = { samples, body: wavOf([toPcm(samples)]), found: null };
    this.#take = take;
    this.#showTake();
    try {
      const found = await this.#put(this.#number, take.body);
      if (this.#take !== take) return;
      take.found = found;
    } catch (error) {
      if (this.#take !== take) return;
      // The person can still keep it: the server may be back by then.
      take.found = { findings: [], usable: true, seconds: samples.length / 24000 };
      this.#keepsWhenChecked = false;
      complain(find("reading-fault"), error);
    }
    this.#showTake();
    announce([find("reading-state").textContent, ...take.found.findings.map(({ sentence }) => sentence)].join(" "));
    if (this.#keepsWhenChecked && !take.found.findings.length) await this.#keep();
    this.#keepsWhenChecked = false;
  }

  /** Keeps the take; one that is recorded or checked, when nothing is found wrong with it. */
  async #keep() {
    const take = this.#take;
    if (this.#recording || (take && !take.found)) this.#keepsWhenChecked = true;
    if (this.#recording) this.#recording.stop();
    if (!take?.found?.usable || this.#recording || this.#busy) return;
    await this.#onward(() => this.#put(this.#number, take.body, "?keep=true"), "Kept.");
    if (find("reading-on").checked && !this.#take && this.#prompt.state === "open") this.#toggle();
  }

  async #skip() {
    if (this.#recording || this.#busy || !this.#prompt || this.#prompt.state === "kept") return;
    await this.#onward(() => send("POST", `${this.#path}/${this.#number}/skip`), "Skipped.");
  }

  /** Acts, then moves to the next open sentence; after an error nothing changes. */
  async #onward(act, sentence) {
    this.#busy = true;
    const done = await tried("reading-fault", async () => {
      await act();
      this.#sheet = await read(this.#path);
    }, sentence);
    this.#busy = false;
    if (!done) return;
    this.#discard();
    const open = this.#sheet.prompts.filter((one) => one.state === "open").map((one) => one.number);
    this.#number = open.find((number) => number > this.#number) ?? open[0] ?? this.#number;
    this.#show();
    if (!open.length) announce("Every sentence is recorded or skipped.");
  }

  async #again() {
    if (!this.#take || this.#recording) return;
    await this.#toggle();
  }

  #step(by) {
    const number = this.#number + by;
    if (this.#recording || this.#busy || number < 1 || number > this.#sheet.prompts.length) return;
    this.#discard();
    this.#number = number;
    this.#show();
  }

  async #delete() {
    await tried("reading-fault", async () => {
      await send("DELETE", `${this.#path}/${this.#number}/take`);
      this.#sheet = await read(this.#path);
    }, "The sentence is to be read again.");
    this.#show();
    this.#focus();
  }

  async #sound() {
    if (this.#take) return bufferOf(this.#take.samples);
    return decoded(await fetchSound(this.#prompt.sound));
  }

  #discard() {
    this.#hearing.source?.stop();
    this.#take = null;
    this.#keepsWhenChecked = false;
  }

  #focus() {
    find("reading-works").focus({ preventScroll: true });
  }

  // Keys work only while the focus is in this section: single letters must do nothing elsewhere (WCAG 2.1.4).
  // On a button, Space and Enter press it.
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const on = event.target === find("reading-works");
    const act = { r: () => this.#again(), s: () => this.#skip(), ...(on ? { " ": () => this.#toggle(), enter: () => this.#keep(), arrowleft: () => this.#step(-1), arrowright: () => this.#step(1) } : {}) }[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  }
}
