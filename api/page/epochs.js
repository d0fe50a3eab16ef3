// The table of epochs, to choose one to listen to or to serve; the choice of the run; its progress.

import { fillRows, find, make, options, say, smallButton } from "./elements.js";
import { candidateName, capital, figure, progressInfo, runName, timeLeft } from "./wording.js";

// By `follows` of /v1/runs.
const FOLLOWS = {
  latest: ". A newer epoch replaces it automatically",
  best: ", the best candidate. A better one replaces it automatically",
  fixed: "",
};

/** chosen(epoch), played(epoch), promoted(epoch): the person's clicks. */
export class EpochsTable {
  #rows = new Map();
  #run = null;

  constructor({ chosen, played, promoted }) {
    Object.assign(this, { chosen, played, promoted });
    this.table = find("epochs-table");
  }

  /** run: one of /v1/runs or null; selected: an epoch or null; busy: the one being promoted. */
  show(run, selected, { busy = null } = {}) {
    const epochs = [...(run?.epochs ?? [])].sort((a, b) => b.epoch - a.epoch);
    find("epochs-empty").hidden = epochs.length > 0;
    this.table.hidden = epochs.length === 0;
    find("epoch-figures").hidden = epochs.length === 0;
    find("training").hidden = !run?.training;
    if (run?.id !== this.#run) this.#rows.clear();
    this.#run = run?.id;
    const known = this.#rows.size > 0;
    const rows = epochs.map((epoch) => this.#row(epoch, { selected, busy }));
    rows.filter((row) => known && !row.isConnected).forEach((row) => row.classList.add("fresh"));
    fillRows(this.table.tBodies[0], rows);
  }

  #row(epoch, { selected, busy }) {
    const row = this.#rows.get(epoch.epoch) ?? this.#newRow(epoch.epoch);
    const { loss, best, similarity } = row.parts;
    showChosen(row, epoch.epoch === selected);
    say(loss, figure(epoch.validation_loss));
    best.hidden = !epoch.is_best;
    say(similarity, figure(epoch.sample?.similarity, 2));
    row.parts.play.disabled = !epoch.sample?.output;
    showServing(row, epoch, { epoch, busy });
    return row;
  }

  #newRow(number) {
    const parts = {
      ...rowButtons(String(number), `epoch ${number}`, { chosen: () => this.chosen(number), played: () => this.played(number), promoted: () => this.promoted(number) }),
      loss: make("span"),
      best: make("span", { class: "best", text: "best", hidden: true }),
      similarity: make("span"),
    };
    // The roles keep it a table where the rows are cards.
    const cell = (label, ...children) => make("td", { class: "number", role: "cell", "data-label": label }, ...children);
    const row = make("tr", { "data-epoch": number, role: "row" },
      make("th", { scope: "row", role: "rowheader" }, parts.play, parts.listen),
      cell("Audio loss", parts.best, parts.loss),
      cell("Similarity", parts.similarity),
      make("td", { class: "serve", role: "cell" }, parts.serving, parts.promote));
    row.addEventListener("click", (event) => {
      if (!event.target.closest("button")) this.chosen(number);
    });
    row.parts = parts;
    this.#rows.set(number, row);
    return row;
  }
}

/** The cells that every row of epochs or candidates has: buttons to choose and to play it, the state, a button to serve. */
export function rowButtons(text, name, { chosen, played, promoted }) {
  return {
    play: make("button", { type: "button", class: "round small row-play", "data-of": name, "aria-label": `Play ${name}`, onclick: played }),
    listen: make("button", { type: "button", class: "epoch", text, "aria-pressed": "false", "aria-label": `Listen to ${name}`, onclick: chosen }),
    serving: make("span", { class: "serving" }),
    promote: smallButton("Serve", { beside: name, onclick: promoted }),
  };
}

export function showChosen(row, isChosen) {
  row.classList.toggle("selected", isChosen);
  row.parts.listen.setAttribute("aria-pressed", String(isChosen));
}

/** one: an epoch or candidate; epoch: the run's epoch for it, or null; busy: the one being promoted. */
export function showServing({ parts: { serving, promote } }, one, { epoch, busy }) {
  const lost = one.kind === "blend" && !one.can_speak ? "not kept" : "";
  const reason = epoch && epoch.checkpoint_state !== "whole" ? epoch.checkpoint_state : lost;
  say(serving, one.is_served ? "Serving" : reason);
  serving.classList.toggle("now", Boolean(one.is_served));
  promote.hidden = Boolean(!epoch || one.is_served || reason);
  promote.disabled = busy !== null;
}

/** The served epoch, and whether a newer one will replace it. */
export function showServed({ served, promoted, runs, follows }) {
  const run = runs.find((one) => one.id === served?.run);
  const where = run && run.id !== "current" ? ` of ${runName(run)}` : "";
  const why = promoted ? ", as you chose" : FOLLOWS[follows] ?? FOLLOWS.latest;
  say(find("served"), served ? `Serving ${candidateName(served)}${where}${why}.` : "No epoch is served.");
  say(find("follow"), follows === "best" ? "Serve the best again" : "Serve the newest again");
  find("follow").hidden = !promoted;
}

/** The choice of a run, if there are several. */
export function showRuns(runs, chosen) {
  options(find("run"), runs.map((run) => ({ value: run.id, text: runName(run) })));
  find("run").value = chosen ?? "";
  find("run-choice").hidden = runs.length < 2;
}

/** The progress of training and the time left. run: one of /v1/runs or null; records: the rows of its metrics.jsonl. */
export function showProgress(run, records) {
  const at = run?.training ? records.findLastIndex((row) => row.kind === "train" && row.progress) : -1;
  find("progress").hidden = at < 0;
  if (at < 0) return;
  const { epoch, progress: { epochs, epoch_step: step, epoch_steps: steps, seconds_left: left } } = records[at];
  const phase = records.slice(at).findLast((row) => row.kind === "phase")?.phase;
  find("progress-bar").value = ((epoch - 1) * steps + step) / (epochs * steps);
  say(find("progress-info"), `${capital(progressInfo({ epoch, epochs, step, steps, phase }))}; ${timeLeft(left)}.`);
}
