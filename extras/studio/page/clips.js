// The clips of a dataset, a page at a time: play, correct, drop.

import { find, isNew, make, say, sends, smallButton, tried } from "../elements.js";
import { bytes, read, send } from "../server.js";
import { datasetPath } from "./paths.js";
import { plays } from "../player.js";
import { decoded, drawWave } from "../sound.js";
import { clock, figure } from "../wording.js";

const PAGE = 20;
const QUIETEST_DB = -60;

export class ClipList {
  #dataset = null;
  #offset = 0;
  #total = 0;
  #hearing = {};

  /** changed(): called after a clip is corrected or dropped. */
  constructor(changed) {
    this.changed = changed;
    find("clip-order").addEventListener("change", () => this.#turn(0));
    find("clips-before").addEventListener("click", () => this.#turn(this.#offset - PAGE));
    find("clips-after").addEventListener("click", () => this.#turn(this.#offset + PAGE));
  }

  /** dataset: from /v1/datasets. Requests clips only if the dataset or its cut has changed. */
  async show(dataset) {
    if (!isNew(this, "shown", [dataset?.id, dataset?.cut.ended, dataset?.clips.total])) return;
    const same = dataset?.id === this.#dataset;
    this.#dataset = dataset?.id ?? null;
    find("clips").hidden = !dataset?.clips.total;
    if (dataset?.clips.total) await this.#turn(same ? this.#offset : 0);
    else find("clip-list").replaceChildren();
  }

  async #turn(offset) {
    const asked = this.#dataset;
    const query = `order=${find("clip-order").value}&offset=${Math.max(0, offset)}&limit=${PAGE}`;
    await tried("clips-fault", async () => {
      const found = await read(`${datasetPath(asked)}/clips?${query}`);
      if (asked !== this.#dataset) return;
      this.#offset = found.offset;
      this.#total = found.total;
      this.#draw(found.clips);
    });
  }

  #draw(clips) {
    this.#hearing.source?.stop();
    find("clip-list").replaceChildren(...clips.map((clip) => this.#item(clip)));
    for (const canvas of find("clip-list").querySelectorAll("canvas")) {
      drawWave(canvas, JSON.parse(canvas.dataset.levels).map((level) => (level - QUIETEST_DB) / -QUIETEST_DB), devicePixelRatio);
    }
    const last = Math.min(this.#offset + PAGE, this.#total);
    say(find("clips-info"), `${this.#offset + 1} to ${last} of ${this.#total}`);
    find("clips-before").disabled = this.#offset === 0;
    find("clips-after").disabled = last >= this.#total;
  }

  #item(clip) {
    const canvas = make("canvas", { role: "img", "aria-label": `Waveform of ${clip.name}`, "data-levels": JSON.stringify(clip.levels) });
    const text = make("textarea", { rows: 2, maxlength: 1000, "aria-label": `Transcript of ${clip.name}`, placeholder: "Transcript of this clip" });
    const state = make("span", { class: "quiet", role: "status" });
    const about = [`at ${clock(clip.start)}`, `${figure(clip.seconds, 1)} s`, clip.why].filter(Boolean).join(", ");
    const [drop, undo] = ["Drop", "Undo correction"].map((label) => smallButton(label));
    const hear = plays(smallButton("Play", { beside: clip.name }), async () => decoded(await bytes(clip.sound)), { of: clip.name, fault: "clips-fault", group: this.#hearing });
    const item = make("li", { "data-clip": clip.name },
      make("div", { class: "clip-sound" }, canvas, hear),
      make("div", { class: "clip-text" }, make("p", { class: "quiet" }, make("span", { class: "name", text: clip.name }), make("span", { text: ` ${about}` })),
        text, make("div", { class: "row" }, drop, undo, state)));
    const show = (now) => {
      clip = now;
      text.value = now.text;
      item.classList.toggle("dropped", now.dropped);
      say(drop, now.dropped ? "Restore" : "Drop");
      drop.setAttribute("aria-label", `${drop.textContent}: ${now.name}`);
      undo.hidden = !now.corrected;
      undo.setAttribute("aria-label", `${undo.textContent}: ${now.name}`);
      say(state, now.dropped ? "Not used for training." : now.text ? (now.corrected ? "Corrected." : "") : "Not used for training until it has a transcript.");
    };
    const change = (what, sentence) => tried("clips-fault", async () => {
      show(await send("PATCH", `${datasetPath(this.#dataset)}/clips/${encodeURIComponent(clip.name)}`, { ...what, sha256: clip.sha256 }));
      this.changed();
    }, sentence);
    const keep = () => text.value !== clip.text && change({ text: text.value }, `${clip.name} is corrected.`);
    text.addEventListener("change", keep);
    text.addEventListener("input", () => say(state, text.value === clip.text ? "" : "Not saved. Leave the field or press Ctrl+Enter to save."));
    text.addEventListener("keydown", (event) => sends(event) && keep());
    drop.addEventListener("click", () => change({ dropped: !clip.dropped }, clip.dropped ? `${clip.name} is restored.` : `${clip.name} is dropped.`));
    undo.addEventListener("click", async () => {
      await change({ text: null }, `The correction of ${clip.name} is undone.`);
      text.focus();
    });
    show(clip);
    return item;
  }
}
