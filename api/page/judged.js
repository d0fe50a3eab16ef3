// The table of an evaluated run: the base first, then epochs and blends, sorted by any judge.

import { fillRows, find, isNew, make, say, tell } from "./elements.js";
import { rowButtons, showChosen, showServing } from "./epochs.js";
import { absent, againstBase, FAILED, facts, failures, figureOf, halfInterval, INTERVAL, LOSS, lowestFirst, meaning, nameOf, ordered, present, short } from "./judges.js";
import { showWay } from "./way.js";
import { candidateName, capital, counted, figure } from "./wording.js";

const UNJUDGED = { judges: {}, remarks: [], unfinished: 0, cut: 0, babbling: 0, judged: false };

/** The candidates of a run, with epochs that are not evaluated yet as candidates without figures. */
export function candidatesOf(run) {
  const judged = run.evaluation.candidates.map((one) => ({ ...one, judged: true }));
  const known = new Set(judged.map((one) => one.id));
  const others = run.epochs.map((epoch) => ({
    ...UNJUDGED, id: `epoch_${epoch.epoch}`, kind: "epoch", epoch: epoch.epoch, share: 1,
    validation_loss: epoch.validation_loss, is_served: epoch.is_served, is_best: false,
    can_speak: epoch.checkpoint_state === "whole",
  })).filter((one) => !known.has(one.id));
  return [...judged, ...others].map((one) => ({
    ...one, of: run.epochs.find((epoch) => one.kind === "epoch" && epoch.epoch === one.epoch) ?? null,
  }));
}

/** chosen(candidate), played(candidate), promoted(epoch): the person's clicks. */
export class JudgedTable {
  #rows = new Map();
  #sort = { column: "epoch", ascending: false };
  #last = null;

  constructor({ chosen, played, promoted }) {
    Object.assign(this, { chosen, played, promoted });
    this.table = find("judged-table");
    this.table.addEventListener("keydown", (event) => {
      if (event.key === "Escape") event.target.closest("th")?.classList.add("dismissed");
    });
  }

  /** run: an evaluated one; selected: a candidate's id; busy: the epoch being promoted. */
  show(run, selected, { busy = null } = {}) {
    this.#last = [run, selected, { busy }];
    const { evaluation } = run;
    this.#head(evaluation);
    const all = candidatesOf(run);
    const others = ordered(all.filter((one) => one.kind !== "base"), evaluation, this.#sort);
    fillRows(find("judged-base"), all.filter((one) => one.kind === "base").map((one) => this.#row(one, evaluation, selected, busy)));
    fillRows(find("judged-others"), others.map((one) => this.#row(one, evaluation, selected, busy)));
    const one = all.find((each) => each.id === selected);
    this.#tell(one, evaluation);
    showWay(one, all.find((each) => each.kind === "base"), evaluation.judges);
  }

  #head(evaluation) {
    const columns = ["epoch", "failed", ...present(evaluation), "loss"];
    if (isNew(this, "columnsShown", [columns, evaluation.judges, evaluation.smallest_difference])) {
      this.#rows.clear();
      this.table.tHead.replaceChildren(make("tr", { role: "row" },
        ...columns.map((column) => this.#heading(column, evaluation)),
        make("th", { scope: "col", role: "columnheader" }, make("span", { class: "hidden", text: "Serving" }))));
      define(evaluation, columns);
    }
    for (const heading of this.table.tHead.querySelectorAll("[data-column]")) {
      const here = heading.dataset.column === this.#sort.column;
      if (here) heading.setAttribute("aria-sort", this.#sort.ascending ? "ascending" : "descending");
      else heading.removeAttribute("aria-sort");
    }
  }

  #heading(column, evaluation) {
    const id = `tip-${column}`;
    const tip = tipOf(column, evaluation);
    const heading = make("th", { scope: "col", role: "columnheader", "data-column": column, class: column === "epoch" ? null : "number" },
      make("button", { type: "button", class: "sort", "aria-describedby": tip ? id : null, onclick: () => this.#order(column, evaluation) },
        make("span", { text: titleOf(column) }), make("span", { class: "arrow", "aria-hidden": "true" })),
      tip ? make("span", { class: "tip", role: "tooltip", id, text: tip }) : null);
    for (const gone of ["mouseleave", "focusout"]) heading.addEventListener(gone, () => heading.classList.remove("dismissed"));
    return heading;
  }

  /** Sorts by a column: best first, and the reverse at the second press. */
  #order(column, evaluation) {
    const again = this.#sort.column === column;
    this.#sort = { column, ascending: again ? !this.#sort.ascending : lowestFirst(evaluation, column) };
    this.show(...this.#last);
  }

  #row(one, evaluation, selected, busy) {
    const row = this.#rows.get(one.id) ?? this.#newRow(one, evaluation);
    const { marks, cells, loss, failed } = row.parts;
    showChosen(row, one.id === selected);
    const states = [one.is_best && "best", one.kind !== "base" && one.indistinguishable_from_base && "no measurable difference", one.ruled_out && "ruled out", !one.judged && "not evaluated yet"];
    say(marks, states.filter(Boolean).join(", "));
    marks.classList.toggle("first", Boolean(one.is_best));
    say(failed, one.judged ? failures(one) : "–");
    for (const [name, cell] of Object.entries(cells)) show(cell, name, figureOf(one, name), evaluation.judges[name]);
    say(loss, figure(one.validation_loss));
    showServing(row, one, { epoch: one.of, busy });
    return row;
  }

  #newRow(one, evaluation) {
    const name = capital(candidateName(one));
    const cell = (column, ...children) => make("td", { class: "number", role: "cell", "data-label": titleOf(column) }, ...children);
    const parts = {
      ...rowButtons({ base: "Base", base_decoder: "Base with decoder" }[one.id] ?? name, candidateName(one), { chosen: () => this.chosen(one.id), played: () => this.played(one.id), promoted: () => this.promoted(one.epoch) }),
      marks: make("span", { class: "marks" }),
      failed: make("span"),
      cells: Object.fromEntries(present(evaluation).map((judge) => [judge, make("span", { class: "figure" })])),
      loss: make("span"),
    };
    const row = make("tr", { "data-candidate": one.id, role: "row" },
      make("th", { scope: "row", role: "rowheader" }, make("div", { class: "row-name" }, parts.play, make("div", {}, parts.listen, parts.marks))),
      cell("failed", parts.failed),
      ...Object.entries(parts.cells).map(([judge, figures]) => cell(judge, figures)),
      cell("loss", parts.loss),
      make("td", { class: "serve", role: "cell" }, parts.serving, parts.promote));
    row.addEventListener("click", (event) => event.target.closest("button") || this.chosen(one.id));
    row.parts = parts;
    this.#rows.set(one.id, row);
    return row;
  }

  /** Describes the chosen candidate in words, since colours and tooltips are not enough. */
  #tell(one, evaluation) {
    say(find("candidate-title"), one ? `${capital(candidateName(one))} in words and figures` : "");
    const lines = one ? facts(one, evaluation) : [];
    const list = find("candidate-facts");
    if (isNew(list.dataset, "shown", lines)) list.replaceChildren(...lines.map((text) => make("li", { text })));
  }
}

function show(cell, name, found, judge) {
  const by = againstBase(judge.better, found);
  if (!isNew(cell.dataset, "shown", [short(name, found?.mean), halfInterval(name, found), by?.mark])) return;
  cell.title = found ? `${nameOf(name)}: ${short(name, found.low)} to ${short(name, found.high)} over ${counted(found.count, "sentence")}${by ? `; ${by.words}` : ""}` : "";
  cell.replaceChildren(
    ...(by ? [make("span", { class: `mark ${{ "▲": "better", "▼": "worse" }[by.mark] ?? ""}`, "aria-hidden": "true", text: by.mark === "▼" ? "▼ worse" : by.mark }), make("span", { class: "hidden", text: `${by.words}: ` })] : []),
    make("span", { text: short(name, found?.mean) }), make("span", { class: "plus", text: halfInterval(name, found) }));
}

function titleOf(column) {
  return { epoch: "Epoch", failed: "Failed", loss: "Audio loss" }[column] ?? nameOf(column);
}

function tipOf(column, evaluation) {
  return { epoch: "", failed: FAILED, loss: LOSS }[column] ?? meaning(evaluation, column);
}

/** The meanings of the headings as text. */
function define(evaluation, columns) {
  const entry = (term, text) => [make("dt", { text: term }), make("dd", { text })];
  find("meanings").replaceChildren(...entry("Figures", INTERVAL),
    ...columns.filter((column) => column !== "epoch").flatMap((column) => entry(titleOf(column), tipOf(column, evaluation))),
    ...absent(evaluation).flatMap((name) => entry(nameOf(name), `Not measured: ${evaluation.judges[name].absent}`)));
}

/** The first sentence of a reason, and the others. Pure. */
export function headlineOf(reason) {
  const [, first, rest] = /^([^]*?\.)(?:\s+([^]*))?$/.exec(reason) ?? [null, reason, ""];
  return [first, rest ?? ""];
}

/** Shows which candidate is best and why, and the button that serves it. promote(candidate): its action. */
export function showVerdict(run, { promoted, follows }, promote) {
  const { verdict } = run.evaluation;
  const best = verdict && candidatesOf(run).find((one) => one.id === verdict.candidate);
  const [first, why] = verdict ? headlineOf(verdict.reason) : ["No verdict yet: it needs an evaluation of the base and of an epoch.", ""];
  tell(find("verdict"), first);
  tell(find("verdict-why"), why);
  find("verdict-more").hidden = !why;
  tell(find("advice"), verdict?.advice ?? "");
  find("advice").hidden = !verdict?.advice;
  const wanted = best && !best.is_served && run.kind !== "archived" ? best : null;
  const isCurrent = run.id === "current";
  // Then the button that follows the training does the same.
  const canFollow = isCurrent && promoted && follows === "best";
  find("suggestion").hidden = !wanted || canFollow;
  if (!wanted) return;
  const name = candidateName(best);
  const button = find("suggest");
  const canPromote = best.kind !== "base" && best.can_speak;
  const how = isCurrent ? "leave VOICE empty, or set VOICE=best." : "export the run, unpack it, and set VOICE to its folder.";
  say(find("suggestion-text"), `${capital(name)} is not served${canPromote ? "." : `: ${how}`}`);
  say(button, `Serve ${name}`);
  button.hidden = !canPromote;
  button.onclick = () => promote(best);
}
