// The clips of a dataset: seen, heard, corrected, dropped; a page of them at a time.

import { announce, complain, find, make, say } from "./elements.js";
import { bytes, read, send } from "./server.js";
import { decoded, sounding } from "./sound.js";
import { datasetPath } from "./uploads.js";
import { clock, figure } from "./wording.js";

const PAGE = 20;
const QUIETEST_DB = -60;

export class ClipList {
  #dataset = null;
  #offset = 0;
  #total = 0;
  #source = null;

  /** changed: called when a clip was corrected or dropped. */
  constructor(changed) {
    this.changed = changed;
    find("clip-order").addEventListener("change", () => this.#turn(0));
    find("clips-before").addEventListener("click", () => this.#turn(this.#offset - PAGE));
    find("clips-after").addEventListener("click", () => this.#turn(this.#offset + PAGE));
  }

  /** dataset: as /v1/datasets tells it. Asks for clips where the dataset, or its cut, is another. */
  async show(dataset) {
    const told = JSON.stringify([dataset?.id, dataset?.cut.ended, dataset?.clips.total]);
    if (told === this.told) return;
    const same = dataset?.id === this.#dataset;
    this.told = told;
    this.#dataset = dataset?.id ?? null;
    find("clips").hidden = !dataset?.clips.total;
    if (dataset?.clips.total) await this.#turn(same ? this.#offset : 0);
    else find("clip-list").replaceChildren();
  }

  async #turn(offset) {
    const asked = this.#dataset;
    const query = `order=${find("clip-order").value}&offset=${Math.max(0, offset)}&limit=${PAGE}`;
    try {
      const found = await read(`${datasetPath(asked)}/clips?${query}`);
      if (asked !== this.#dataset) return;
      this.#offset = found.offset;
      this.#total = found.total;
      this.#draw(found.clips);
      complain(find("clips-fault"), null);
    } catch (error) {
      complain(find("clips-fault"), error);
    }
  }

  #draw(clips) {
    this.#source?.stop();
    find("clip-list").replaceChildren(...clips.map((clip) => this.#item(clip)));
    for (const canvas of find("clip-list").querySelectorAll("canvas")) drawLevels(canvas, JSON.parse(canvas.dataset.levels));
    const last = Math.min(this.#offset + PAGE, this.#total);
    say(find("clips-told"), `${this.#offset + 1} to ${last} of ${this.#total}`);
    find("clips-before").disabled = this.#offset === 0;
    find("clips-after").disabled = last >= this.#total;
  }

  #item(clip) {
    const canvas = make("canvas", { role: "img", "aria-label": `Waveform of ${clip.name}`, "data-levels": JSON.stringify(clip.levels) });
    const text = make("textarea", { rows: 2, maxlength: 1000, "aria-label": `What ${clip.name} says`, placeholder: "What is said here" });
    const state = make("span", { class: "quiet", role: "status" });
    const about = [`at ${clock(clip.start)}`, `${figure(clip.seconds, 1)} s`, clip.why].filter(Boolean).join(", ");
    const [drop, undo] = ["Drop", "As it was cut"].map((label) => make("button", { type: "button", class: "plain small", text: label }));
    const item = make("li", { "data-clip": clip.name },
      make("div", { class: "clip-sound" }, canvas, this.#player(clip)),
      make("div", { class: "clip-text" }, make("p", { class: "quiet" }, make("span", { class: "name", text: clip.name }), make("span", { text: ` ${about}` })),
        text, make("div", { class: "row" }, drop, undo, state)));
    const show = (now) => {
      clip = now;
      text.value = now.text;
      item.classList.toggle("dropped", now.dropped);
      say(drop, now.dropped ? "Take it in again" : "Drop");
      drop.setAttribute("aria-label", `${drop.textContent}: ${now.name}`);
      undo.hidden = !now.corrected;
      undo.setAttribute("aria-label", `${undo.textContent}: ${now.name}`);
      say(state, now.dropped ? "Left out of training." : now.text ? (now.corrected ? "Corrected." : "") : "Left out of training until it has a text.");
    };
    const change = async (what, sentence) => {
      try {
        show(await send("PATCH", `${datasetPath(this.#dataset)}/clips/${encodeURIComponent(clip.name)}`, { ...what, sha256: clip.sha256 }));
        complain(find("clips-fault"), null);
        announce(sentence);
        this.changed();
      } catch (error) {
        complain(find("clips-fault"), error);
      }
    };
    const keep = () => text.value !== clip.text && change({ text: text.value }, `${clip.name} is corrected.`);
    text.addEventListener("change", keep);
    text.addEventListener("input", () => say(state, text.value === clip.text ? "" : "Not saved yet: leave the field, or press Ctrl and Enter."));
    text.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && keep());
    drop.addEventListener("click", () => change({ dropped: !clip.dropped }, clip.dropped ? `${clip.name} is taken in again.` : `${clip.name} is left out.`));
    undo.addEventListener("click", async () => {
      await change({ text: null }, `${clip.name} says what was cut.`);
      text.focus();
    });
    show(clip);
    return item;
  }

  /** Plays a clip, and stops it at the second press; one at a time. */
  #player(clip) {
    const button = make("button", { type: "button", class: "plain small", text: "Hear", "aria-label": `Hear ${clip.name}` });
    let mine = null;
    button.addEventListener("click", async () => {
      const playing = this.#source;
      playing?.stop();
      if (playing && playing === mine) return;
      const context = sounding(); // Within the click, or the browser keeps the sound back.
      try {
        const buffer = await decoded(await bytes(clip.sound));
        const source = new AudioBufferSourceNode(context, { buffer });
        this.#source = mine = source;
        source.connect(context.destination);
        source.onended = () => {
          if (this.#source === source) this.#source = null;
          say(button, "Hear");
          button.setAttribute("aria-label", `Hear ${clip.name}`);
        };
        source.start();
        say(button, "Stop");
        button.setAttribute("aria-label", `Stop ${clip.name}`);
      } catch (error) {
        complain(find("clips-fault"), error);
      }
    });
    return button;
  }
}

/** levels: dB of each stretch; the louder, the higher. */
function drawLevels(canvas, levels) {
  canvas.width = canvas.clientWidth * devicePixelRatio;
  canvas.height = canvas.clientHeight * devicePixelRatio;
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(canvas).color;
  const each = canvas.width / Math.max(levels.length, 1);
  levels.forEach((level, place) => {
    const height = Math.max(devicePixelRatio, (canvas.height * (level - QUIETEST_DB)) / -QUIETEST_DB);
    pen.fillRect(place * each, (canvas.height - height) / 2, Math.max(each - devicePixelRatio, 1), height);
  });
}
