// Recordings: uploads, the cut into a dataset, and the command to train on it. See also clips.js, account.js and
// trainings.js.

import { adviceFor, showAccount } from "./account.js";
import { ClipList } from "./clips.js";
import { announce, calmly, complain, complainOfRefresh, entry, find, isNew, make, options, say, smallButton, tell, tried, twice } from "../elements.js";
import { read, request, send } from "../server.js";
import { datasetPath } from "./paths.js";
import { keep } from "../sound.js";
import { counted, diskSize, grouped } from "../wording.js";

const LOOK_MILLISECONDS = 2000;
const STATES = { none: "Not cut yet.", queued: "Queued.", running: "Cutting.", done: "Cut.", failed: "The cut failed.", stopped: "Stopped." };

export class Recordings {
  #chosen = null;
  #shown = null;
  #sending = new Map();
  #timer = null;

  constructor() {
    this.clips = new ClipList(() => this.refresh());
    this.soon = calmly(() => this.refresh(), 1000);
    find("dataset-form").addEventListener("submit", (event) => this.#make(event));
    find("dataset").addEventListener("change", (event) => {
      this.#chosen = event.target.value;
      this.refresh();
    });
    find("recording-files").addEventListener("change", (event) => this.#send([...event.target.files]));
    find("recording-text").addEventListener("change", (event) => this.#text(event.target));
    find("text-remove").addEventListener("click", () => this.#act(() => send("DELETE", `${this.#path}/text`), "The transcript is removed."));
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
      await this.#show(found || null);
      complainOfRefresh(find("recordings-fault"), null);
      if (["queued", "running"].includes(found?.cut?.state)) this.#timer = setTimeout(() => !document.hidden && this.refresh(), LOOK_MILLISECONDS);
    } catch (error) {
      // Another page has deleted the dataset.
      if (error.code === "no_dataset") this.#chosen = null;
      complainOfRefresh(find("recordings-fault"), error);
    }
  }

  /** Runs an action, refreshes, and announces the sentence; a failure shows its message. */
  async #act(what, sentence) {
    const answer = await tried("recordings-fault", what, sentence);
    await this.refresh();
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
    }, `${body.name} is created.`);
    if (!made) return;
    form.reset();
    find("recording-files").focus();
  }

  #list(datasets, space) {
    if (!datasets.some((one) => one.id === this.#chosen)) this.#chosen = datasets[0]?.id ?? null;
    find("dataset-choice").hidden = !datasets.length;
    if (isNew(this, "hasAny", datasets.length > 0)) find("dataset-new").open = !datasets.length;
    say(find("recordings-room"), datasets.length ? `${diskSize(space.used)} of ${diskSize(space.most)} used` : "");
    options(find("dataset"), datasets.map((one) => ({ value: one.id, text: one.name })));
    find("dataset").value = this.#chosen ?? "";
  }

  async #show(found) {
    this.#shown = found;
    find("dataset-works").hidden = !found;
    this.clips.show(found);
    if (!found) return;
    find("cut-works").hidden = found.read_aloud;
    this.#showRecordings(found);
    this.#showCut(found);
    find("train-works").hidden = !found.train;
    say(find("train-line"), found.train?.command ?? "");
    say(find("train-info"), found.train ? `${counted(found.clips.kept, "clip")}, ${(found.clips.kept_seconds / 60).toFixed(1)} minutes of training data. In a container: ${found.train.container}` : "");
    await showAccount(found);
  }

  #showRecordings(found) {
    const busy = ["queued", "running"].includes(found.cut.state);
    const sent = [...this.#sending].filter(([, one]) => one.dataset === this.#chosen);
    // A button with the focus is replaced only if something has changed.
    if (isNew(this, "recordingsShown", [found.id, found.recordings, busy, sent.map(([key]) => key)])) {
      find("recording-list").replaceChildren(...found.recordings.map((row) => this.#row(row, busy)), ...sent.map(([, one]) => sendingRow(one)));
    }
    say(find("text-info"), found.text ? `Transcript: ${found.text.kind}, ${grouped(found.text.bytes)} bytes.` : "No transcript: write the text of each clip after the cut.");
    find("text-remove").hidden = !found.text;
    find("text-remove").disabled = find("recording-text").disabled = busy;
  }

  #row(row, busy) {
    const button = twice(smallButton("", { disabled: busy }), "Delete", () => this.#act(() => send("DELETE", `${this.#path}/recordings/${encodeURIComponent(row.id)}`), `${row.name} is deleted.`), { of: row.name });
    return make("li", {}, entry(row.name, diskSize(row.bytes)), button);
  }

  #showCut(found) {
    const { cut } = found;
    const busy = ["queued", "running"].includes(cut.state);
    const ahead = cut.state === "queued" && cut.ahead ? `${counted(cut.ahead, "dataset")} ahead.` : "";
    const changed = cut.outdated && !busy ? "The recordings, the transcript or the language have changed: cut again." : "";
    tell(find("cut-info"), [STATES[cut.state], ahead, cut.told, cut.message, changed].filter(Boolean).join(" "));
    const failed = cut.state === "failed";
    find("cut-info").classList.toggle("failed", failed);
    find("cut-advice").hidden = !failed;
    tell(find("cut-advice"), failed ? adviceFor(cut.message) : "");
    find("cut").disabled = busy || !found.recordings.length;
    say(find("cut"), cut.state === "none" ? "Cut" : "Cut again");
    find("cut-stop").hidden = !busy;
  }

  /** Uploads files one after the other: they share one connection. */
  async #send(files) {
    const dataset = this.#chosen;
    find("recording-files").value = "";
    const fault = find("upload-fault");
    complain(fault, null);
    for (const file of files) {
      const key = `${dataset} ${file.name}`;
      if (this.#sending.has(key)) continue;
      const ending = new AbortController();
      this.#sending.set(key, { dataset, file, ending });
      await this.refresh();
      try {
        await request(`${datasetPath(dataset)}/recordings?name=${encodeURIComponent(file.name)}`, {
          method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" }, signal: ending.signal,
        });
        announce(`${file.name} is uploaded.`);
      } catch (error) {
        if (error.name !== "AbortError") complain(fault, { message: `${file.name}: ${error.message}` });
      }
      this.#sending.delete(key);
      await this.refresh();
    }
  }

  async #text(field) {
    const [file] = field.files;
    if (!file) return;
    const kind = file.name.split(".").pop().toLowerCase();
    await this.#act(() => request(`${this.#path}/text?kind=${encodeURIComponent(kind)}`, { method: "PUT", body: file, headers: { "Content-Type": "application/octet-stream" } }), "The transcript is uploaded.");
    field.value = "";
  }

  async #remove() {
    for (const one of this.#sending.values()) if (one.dataset === this.#chosen) one.ending.abort();
    const path = this.#path;
    await this.#act(async () => {
      await send("DELETE", path);
      this.#chosen = null;
    }, "The dataset is deleted.");
    find("recordings").focus();
  }
}

/** An upload in progress. A browser does not report how much has been sent. */
function sendingRow({ file, ending }) {
  const bar = make("progress", { "aria-label": `Upload of ${file.name}` });
  return make("li", {}, entry(file.name, diskSize(file.size), bar), smallButton("Cancel", { beside: file.name, onclick: () => ending.abort() }));
}
