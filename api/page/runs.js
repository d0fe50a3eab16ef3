// The list of runs: the size and outcome of each, and buttons to open, export and delete it.

import { find, isNew, make, relabel, say, smallButton, tell, tried, twice } from "./elements.js";
import { headlineOf } from "./judged.js";
import { read, request, runPath, send } from "./server.js";
import { keep } from "./sound.js";
import { counted, diskSize, fileName, runName } from "./wording.js";

/**
 * "2 epochs, 3.5 minutes of ana; 23.4 MB on disk, a deletion frees 12.0 MB.", without the last part if the
 * run cannot be deleted. Pure.
 */
export function runInfo(run, dataset, { bytes, frees, why_kept: kept } = {}) {
  const data = [run.minutes !== null && `${run.minutes.toFixed(1)} minutes`, dataset && `of ${dataset}`].filter(Boolean).join(" ");
  const of = [counted(run.epochs.length, "epoch"), data].filter(Boolean).join(", ");
  if (bytes === undefined) return of;
  return `${of}; ${diskSize(bytes)} on disk${kept ? "" : `, a deletion frees ${diskSize(frees)}`}.`;
}

export class RunList {
  #rows = new Map();

  /** opened(run): shows its epochs; changed(): called after a deletion. */
  constructor({ opened, changed }) {
    Object.assign(this, { opened, changed });
  }

  /** known: the answer of /v1/runs; trainingOf(run): its newest training or null. */
  show(known, trainingOf) {
    const listed = known.runs.filter((run) => run.epochs.length || run.training);
    for (const id of [...this.#rows.keys()].filter((known) => !listed.some((run) => run.id === known))) this.#rows.delete(id);
    const rows = listed.map((run) => this.#row(run, known, trainingOf(run.id)));
    find("runs-empty").hidden = rows.length > 0;
    if (isNew(this, "order", listed.map((run) => run.id))) find("run-list").replaceChildren(...rows.map((row) => row.element));
  }

  #row(run, { served, promoted }, training) {
    const row = this.#rows.get(run.id) ?? this.#newRow(run);
    row.run = run;
    row.dataset = training?.dataset ?? "";
    tell(row.verdict, headlineOf(run.evaluation?.verdict?.reason ?? "")[0]);
    // Its content, or whether it can be deleted, may have changed.
    const about = [run.epochs.map((one) => one.checkpoint_state), run.training, run.evaluation?.made_at, served?.run === run.id, promoted, training?.state];
    if (isNew(row, "about", about)) this.#measure(row);
    return row;
  }

  #newRow(run) {
    const name = runName(run);
    const row = { info: make("span", { class: "quiet" }), verdict: make("span", { class: "quiet" }), why: make("span", { class: "quiet" }) };
    const path = runPath(run.id);
    const zip = this.#saver("Export", name, () => request(`${path}/export`, { method: "POST" }), `${fileName(run.id)}.zip`);
    const file = this.#saver("Save as file", name, () => request(`${path}/file`), `${fileName(run.id)}.sotaque`);
    row.remove = twice(smallButton("", { hidden: true }), "Delete", () => this.#remove(row, name), { of: name });
    row.element = make("li", { "data-run": run.id },
      make("p", {}, make("span", { class: "name", text: name }), row.info, row.verdict, row.why),
      make("div", { class: "row" }, smallButton("Listen", { beside: name, onclick: () => this.opened(run.id) }), zip, file, row.remove));
    this.#rows.set(run.id, row);
    return row;
  }

  async #measure(row) {
    // A run that is being deleted changes, and an older list may still contain it.
    if (row.leaving) return;
    say(row.info, runInfo(row.run, row.dataset));
    // A deleted run is not in the next list.
    const found = await read(runPath(row.run.id)).catch(() => null);
    if (!found) return;
    say(row.info, runInfo(row.run, row.dataset, found));
    tell(row.why, found.why_kept && `It cannot be deleted. ${found.why_kept}`);
    row.remove.hidden = Boolean(found.why_kept);
  }

  /** A button that saves the best voice of a run; ask(): requests the file. */
  #saver(label, name, ask, saved) {
    const button = smallButton(label, { beside: name, onclick: async () => {
      button.disabled = true;
      relabel(button, "Exporting", name);
      await tried("runs-fault", async () => keep(await (await ask()).blob(), saved), `${name} is exported.`);
      relabel(button, label, name);
      button.disabled = false;
    } });
    return button;
  }

  async #remove(row, name) {
    row.leaving = true;
    const done = await tried("runs-fault", () => send("DELETE", runPath(row.run.id)), `${name} is deleted.`);
    row.leaving = done;
    if (!done) return this.#measure(row);
    find("runs").focus();
    return this.changed();
  }
}
