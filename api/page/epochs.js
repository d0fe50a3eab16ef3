// The table of epochs: choose one to hear it, or make it the one that is served.

import { find, make, say } from "./elements.js";
import { candidateName, figure, runName } from "./wording.js";

// What happens by itself, by what /v1/runs says is followed.
const FOLLOWS = {
  latest: "; a newer one follows by itself",
  best: ", the best of those that were judged; a better one follows by itself",
  fixed: "",
};

/** chosen(epoch), promoted(epoch): the person's clicks. */
export class EpochsTable {
  #rows = new Map();
  #run = null;

  constructor({ chosen, promoted }) {
    this.chosen = chosen;
    this.promoted = promoted;
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
    const body = this.table.tBodies[0];
    // Rows stay the same elements: the focus inside them does not move when an epoch appears.
    rows.filter((row) => known && !row.isConnected).forEach((row) => row.classList.add("fresh"));
    rows.forEach((row, i) => body.rows[i] !== row && body.insertBefore(row, body.rows[i] ?? null));
    while (body.rows.length > rows.length) body.lastElementChild.remove();
  }

  #row(epoch, { selected, busy }) {
    const row = this.#rows.get(epoch.epoch) ?? this.#newRow(epoch.epoch);
    const { listen, loss, best, similarity, serving, promote } = row.parts;
    const isSelected = epoch.epoch === selected;
    row.classList.toggle("selected", isSelected);
    listen.setAttribute("aria-pressed", String(isSelected));
    say(loss, figure(epoch.validation_loss));
    best.hidden = !epoch.is_best;
    say(similarity, figure(epoch.sample?.similarity, 2));
    const reason = unservable(epoch);
    say(serving, epoch.is_served ? "Serving" : reason);
    serving.classList.toggle("now", Boolean(epoch.is_served));
    promote.hidden = Boolean(epoch.is_served || reason);
    promote.disabled = busy !== null;
    return row;
  }

  #newRow(number) {
    const parts = {
      listen: make("button", {
        type: "button", class: "epoch", text: String(number), "aria-pressed": "false",
        "aria-label": `Listen to epoch ${number}`, onclick: () => this.chosen(number),
      }),
      loss: make("span"),
      best: make("span", { class: "best", text: "best", hidden: true }),
      similarity: make("span"),
      serving: make("span", { class: "serving" }),
      promote: make("button", {
        type: "button", class: "plain small", text: "Serve", "aria-label": `Serve epoch ${number}`,
        onclick: () => this.promoted(number),
      }),
    };
    const row = make("tr", { "data-epoch": number },
      make("th", { scope: "row" }, parts.listen),
      make("td", { class: "number" }, parts.best, parts.loss),
      make("td", { class: "number" }, parts.similarity),
      make("td", { class: "serve" }, parts.serving, parts.promote));
    row.addEventListener("click", (event) => {
      if (!event.target.closest("button")) this.chosen(number);
    });
    row.parts = parts;
    this.#rows.set(number, row);
    return row;
  }
}

function unservable(epoch) {
  return epoch.checkpoint_state === "whole" ? "" : epoch.checkpoint_state;
}

/** Which epoch speaks, and whether it follows the newest. */
export function showServed({ served, promoted, runs, follows }) {
  const run = runs.find((one) => one.id === served?.run);
  const where = run && run.id !== "current" ? ` of ${runName(run)}` : "";
  const why = promoted ? ", as you chose" : FOLLOWS[follows] ?? FOLLOWS.latest;
  say(find("served"), served ? `Serving ${candidateName(served)}${where}${why}.` : "Serving no epoch of a run.");
  say(find("follow"), follows === "best" ? "Serve the best again" : "Serve the newest again");
  find("follow").hidden = !promoted;
}

/** The choice of a run, where there is more than one. */
export function showRuns(runs, chosen) {
  const select = find("run");
  const ids = runs.map((run) => run.id).join("\n");
  if (select.dataset.ids !== ids) {
    select.replaceChildren(...runs.map((run) => make("option", { value: run.id, text: runName(run) })));
    select.dataset.ids = ids;
  }
  select.value = chosen ?? "";
  find("run-choice").hidden = runs.length < 2;
}
