// Recordings: uploaded, cut into a dataset, and the line that trains on it. The clips: clips.js.

import { ClipList } from "./clips.js";
import { announce, calmly, complain, entry, figuresRow, find, isNew, make, options, relabel, say, smallButton, tried, twice } from "./elements.js";
import { datasetPath, read, request, send } from "./server.js";
import { keep } from "./sound.js";
import { sendRecording } from "./uploads.js";
import { clock, counted, diskSize, languageOptions } from "./wording.js";

const LOOK_MILLISECONDS = 2000;
const STATES = { none: "Not cut yet.", queued: "Waits for its turn.", running: "Is being cut.", done: "Cut.", failed: "Could not be cut.", stopped: "Stopped." };

export class Recordings {
  #chosen = null;
  #shown = null;
  #sending = new Map();
  #timer = null;

  constructor() {
    this.clips = new ClipList(() => this.refresh());
    this.soon = calmly(() => this.refresh(), 1000);
    options(find("dataset-language"), languageOptions(), "en");
    find("dataset-form").addEventListener("submit", (event) => this.#make(event));
    find("dataset").addEventListener("change", (event) => {
      this.#chosen = event.target.value;
      this.refresh();
    });
    find("recording-files").addEventListener("change", (event) => this.#send([...event.target.files]));
    find("recording-text").addEventListener("change", (event) => this.#text(event.target));
    find("text-remove").addEventListener("click", () => this.#act(() => send("DELETE", `${this.#path}/text`), "The text is removed."));
    find("cut").addEventListener("click", () => this.#act(() => send("POST", `${this.#path}/cut`), "The cut is queued."));
    find("cut-stop").addEventListener("click", () => this.#act(() => send("DELETE", `${this.#path}/cut`), "The cut is stopped."));
    find("save-account").addEventListener("click", () => this.#act(async () => keep(await (await request(`${this.#path}/account.csv`)).blob(), `${this.#chosen}-account.csv`), "Saved."));
    find("copy-train").addEventListener("click", () => this.#act(() => navigator.clipboard.writeText(find("train-line").textContent), "Copied."));
    twice(find("dataset-remove"), "Delete dataset", () => this.#remove());
  }

  get #path() {
    return datasetPath(this.#chosen);
  }

  async refresh() {
    clearTimeout(this.#timer);
    try {
      const { datasets, space } = await read("/v1/datasets");
      this.#list(datasets, space);
      const found = this.#chosen && (await read(this.#path));
      this.#show(found || null);
      if (!this.#acting) complain(find("recordings-fault"), null);
      if (["queued", "running"].includes(found?.cut?.state)) this.#timer = setTimeout(() => !document.hidden && this.refresh(), LOOK_MILLISECONDS);
    } catch (error) {
      // Deleted meanwhile, by another page: the list says what there is.
      if (error.code === "no_dataset") this.#chosen = null;
      complain(find("recordings-fault"), error);
    }
  }

  #acting = false;

  /** Does it, shows what is then, and says so; what fails is told as its sentence. */
  async #act(what, sentence) {
    this.#acting = true;
    const answer = await tried("recordings-fault", what, sentence);
    await this.refresh();
    this.#acting = false;
    return answer;
  }

  async #make(event) {
    event.preventDefault();
    const form = event.target;
    const body = { name: form.elements.name.value, language: form.elements.language.value };
    const made = await this.#act(async () => {
      const found = await send("POST", "/v1/datasets", body);
      this.#chosen = found.id;
      return found;
    }, `${body.name} is made.`);
    if (!made) return;
    form.reset();
    find("recording-files").focus();
  }

  #list(datasets, space) {
    if (!datasets.some((one) => one.id === this.#chosen)) this.#chosen = datasets[0]?.id ?? null;
    find("dataset-choice").hidden = !datasets.length;
    say(find("recordings-room"), datasets.length ? `${diskSize(space.used)} of ${diskSize(space.most)} are used.` : "");
    options(find("dataset"), datasets.map((one) => ({ value: one.id, text: one.name })));
    find("dataset").value = this.#chosen ?? "";
  }

  #show(found) {
    this.#shown = found;
    find("dataset-works").hidden = !found;
    this.clips.show(found);
    if (!found) return;
    this.#showRecordings(found);
    this.#showCut(found);
    showAccount(found);
    find("train-works").hidden = !found.train;
    say(find("train-line"), found.train?.command ?? "");
    say(find("train-told"), found.train ? `${counted(found.clips.kept, "clip")}, ${(found.clips.kept_seconds / 60).toFixed(1)} minutes to learn from. In a container: ${found.train.container}` : "");
  }

  #showRecordings(found) {
    const busy = ["queued", "running"].includes(found.cut.state);
    const rows = found.recordings.map((row) => this.#row(row, busy));
    // A button that has the focus is not drawn again for nothing.
    if (isNew(this, "recordingsTold", [found.id, found.recordings, busy, [...this.#sending.keys()]])) find("recording-list").replaceChildren(...rows);
    say(find("text-told"), found.text ? `Text: a ${found.text.kind} file, ${found.text.bytes.toLocaleString("en")} bytes.` : "No text: its clips wait for you to write theirs.");
    find("text-remove").hidden = !found.text;
    find("text-remove").disabled = find("recording-text").disabled = busy;
  }

  #row(row, busy) {
    const key = `${this.#chosen} ${row.name}`;
    const sending = this.#sending.get(key);
    const part = row.whole ? diskSize(row.bytes) : `${diskSize(row.received)} of ${diskSize(row.bytes)}${sending ? "" : "; choose the file again, and it goes on from there"}`;
    const bar = row.whole ? null : make("progress", { max: row.bytes, value: row.received, "aria-label": `Upload of ${row.name}` });
    const button = smallButton("", { disabled: busy && !sending });
    if (sending) {
      relabel(button, "Pause", row.name);
      button.addEventListener("click", () => sending.abort());
    } else {
      twice(button, "Delete", () => this.#act(() => send("DELETE", `${this.#path}/recordings/${encodeURIComponent(row.id)}`), `${row.name} is deleted.`), { of: row.name });
    }
    return make("li", {}, entry(row.name, part, bar), button);
  }

  #showCut(found) {
    const { cut } = found;
    const busy = ["queued", "running"].includes(cut.state);
    const ahead = cut.state === "queued" && cut.ahead ? `${counted(cut.ahead, "dataset")} before it.` : "";
    const changed = cut.outdated && !busy ? "Something has changed since: cut again." : "";
    say(find("cut-told"), [STATES[cut.state], ahead, cut.told, cut.message, changed].filter(Boolean).join(" "));
    find("cut-told").classList.toggle("failed", cut.state === "failed");
    find("cut").disabled = busy || !found.recordings.length;
    say(find("cut"), cut.state === "none" ? "Cut" : "Cut again");
    find("cut-stop").hidden = !busy;
  }

  /** One after the other: the line is one. */
  async #send(files) {
    const dataset = this.#chosen;
    find("recording-files").value = "";
    const fault = find("upload-fault");
    complain(fault, null);
    for (const file of files) {
      const [key, ending] = [`${dataset} ${file.name}`, new AbortController()];
      if (this.#sending.has(key)) continue;
      this.#sending.set(key, ending);
      try {
        const row = await sendRecording(dataset, file, (now) => this.#progress(dataset, now), ending.signal);
        announce(row.whole ? `${file.name} has arrived.` : `${file.name} is paused.`);
      } catch (error) {
        complain(fault, { message: `${file.name}: ${error.message}` });
      }
      this.#sending.delete(key);
      await this.refresh();
    }
  }

  #progress(dataset, row) {
    if (dataset !== this.#chosen || !this.#shown) return;
    const rows = this.#shown.recordings.filter((one) => one.id !== row.id);
    this.#showRecordings({ ...this.#shown, recordings: [...rows, row] });
  }

  async #text(field) {
    const [file] = field.files;
    if (!file) return;
    const kind = file.name.split(".").pop().toLowerCase();
    await this.#act(() => request(`${this.#path}/text?kind=${encodeURIComponent(kind)}`, { method: "PUT", body: file, headers: { "Content-Type": "application/octet-stream" } }), "The text is there.");
    field.value = "";
  }

  async #remove() {
    for (const [key, ending] of this.#sending) if (key.startsWith(`${this.#chosen} `)) ending.abort();
    const path = this.#path;
    await this.#act(async () => {
      await send("DELETE", path);
      this.#chosen = null;
    }, "The dataset is deleted.");
    find("recordings").focus();
  }
}

/** What became of every second of the recordings, and what of the text and the corrections has no clip. */
function showAccount(found) {
  find("account-works").hidden = !found.account.length;
  const sums = new Map();
  for (const one of found.account) {
    for (const [reason, seconds] of Object.entries(one.seconds_by_reason)) sums.set(reason, (sums.get(reason) ?? 0) + seconds);
  }
  const all = found.account.reduce((sum, one) => sum + one.seconds, 0);
  const rows = [...sums].sort((a, b) => b[1] - a[1])
    .map(([reason, seconds]) => figuresRow(reason, clock(seconds, 0), `${((100 * seconds) / all).toFixed(1)} %`));
  find("account").replaceChildren(...rows);
  const { clips } = found;
  const parts = [counted(clips.total, "clip"), `${clips.dropped} dropped`, `${clips.without_text} without a text`, `${clips.corrected} corrected`];
  say(find("account-told"), `${clock(all, 0)} recorded; ${parts.join(", ")}. Speech was found by ${found.speech_by || "nothing"}.`);
  disclose("unheard", found.num_unheard, `${counted(found.num_unheard, "sentence")} of the text not heard`, found.unheard);
  disclose("unplaced", found.unplaced.length, `${counted(found.unplaced.length, "correction")} without a clip in this cut`,
    found.unplaced.map((one) => `${one.name}: ${one.dropped ? "dropped" : one.text} (was: ${one.was || "nothing"})`));
}

/** A list that is opened by its summary; hidden where there is nothing in it. */
function disclose(id, count, summary, lines) {
  const place = find(id);
  place.hidden = !count;
  say(place.querySelector("summary"), summary);
  place.querySelector("ul").replaceChildren(...lines.map((text) => make("li", { text })));
}
