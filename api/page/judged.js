// The table of a run that was evaluated: the base first, then epochs and blends, by any judge.

import { fillRows, find, isNew, make, say } from "./elements.js";
import { rowButtons, showChosen, showServing } from "./epochs.js";
import { absent, againstBase, ASTRAY, astray, facts, halfInterval, INTERVAL, LOSS, lowestFirst, meaning, NAMES, ordered, present, short } from "./judges.js";
import { candidateName, capital, counted, figure } from "./wording.js";

const UNJUDGED = { judges: {}, remarks: [], unfinished: 0, cut: 0, babbling: 0, judged: false };

/** The candidates of a run, and the epochs that were not judged yet as candidates without figures. */
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

/** chosen(candidate), promoted(epoch): the person's clicks. */
export class JudgedTable {
  #rows = new Map();
  #sort = { column: "epoch", ascending: false };
  #last = null;

  constructor({ chosen, promoted }) {
    this.chosen = chosen;
    this.promoted = promoted;
    this.table = find("judged-table");
    this.table.addEventListener("keydown", (event) => {
      if (event.key === "Escape") event.target.closest("th")?.classList.add("dismissed");
    });
  }

  /** run: one that has an evaluation; selected: a candidate's id; busy: the epoch being promoted. */
  show(run, selected, { busy = null } = {}) {
    this.#last = [run, selected, { busy }];
    const { evaluation } = run;
    this.#head(evaluation);
    const all = candidatesOf(run);
    const others = ordered(all.filter((one) => one.kind !== "base"), evaluation, this.#sort);
    fillRows(find("judged-base"), all.filter((one) => one.kind === "base").map((one) => this.#row(one, evaluation, selected, busy)));
    fillRows(find("judged-others"), others.map((one) => this.#row(one, evaluation, selected, busy)));
    this.#tell(all.find((one) => one.id === selected), evaluation);
  }

  #head(evaluation) {
    const columns = ["epoch", "astray", ...present(evaluation), "loss"];
    if (isNew(this, "columnsTold", [columns, evaluation.judges, evaluation.smallest_difference])) {
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
      make("button", { type: "button", class: "sort", text: titleOf(column), "aria-describedby": tip ? id : null, onclick: () => this.#order(column, evaluation) }),
      tip ? make("span", { class: "tip", role: "tooltip", id, text: tip }) : null);
    for (const gone of ["mouseleave", "focusout"]) heading.addEventListener(gone, () => heading.classList.remove("dismissed"));
    return heading;
  }

  /** The first press puts the best first, the next one turns it round. */
  #order(column, evaluation) {
    const again = this.#sort.column === column;
    this.#sort = { column, ascending: again ? !this.#sort.ascending : lowestFirst(evaluation, column) };
    this.show(...this.#last);
  }

  #row(one, evaluation, selected, busy) {
    const row = this.#rows.get(one.id) ?? this.#newRow(one, evaluation);
    const { marks, cells, loss, strays } = row.parts;
    showChosen(row, one.id === selected);
    const told = [one.is_best && "best", one.kind !== "base" && one.indistinguishable_from_base && "not distinguishable from the base", one.ruled_out && "ruled out", !one.judged && "not judged yet"];
    say(marks, told.filter(Boolean).join(", "));
    marks.classList.toggle("first", Boolean(one.is_best));
    say(strays, one.judged ? astray(one) : "–");
    for (const [name, cell] of Object.entries(cells)) show(cell, name, one.judges[name], evaluation.judges[name]);
    say(loss, figure(one.validation_loss));
    showServing(row, one, { epoch: one.of, busy });
    return row;
  }

  #newRow(one, evaluation) {
    const name = capital(candidateName(one));
    const cell = (column, ...children) => make("td", { class: "number", role: "cell", "data-label": titleOf(column) }, ...children);
    const parts = {
      ...rowButtons(one.kind === "base" ? "Base" : name, candidateName(one), () => this.chosen(one.id), () => this.promoted(one.epoch)),
      marks: make("span", { class: "marks" }),
      strays: make("span"),
      cells: Object.fromEntries(present(evaluation).map((judge) => [judge, make("span", { class: "figure" })])),
      loss: make("span"),
    };
    const row = make("tr", { "data-candidate": one.id, role: "row" },
      make("th", { scope: "row", role: "rowheader" }, parts.listen, parts.marks),
      cell("astray", parts.strays),
      ...Object.entries(parts.cells).map(([judge, figures]) => cell(judge, figures)),
      cell("loss", parts.loss),
      make("td", { class: "serve", role: "cell" }, parts.serving, parts.promote));
    row.addEventListener("click", (event) => event.target.closest("button") || this.chosen(one.id));
    row.parts = parts;
    this.#rows.set(one.id, row);
    return row;
  }

  /** The chosen one in words: nothing is said by a colour or a tooltip alone. */
  #tell(one, evaluation) {
    say(find("candidate-title"), one ? capital(candidateName(one)) : "");
    const told = one ? facts(one, evaluation) : [];
    const list = find("candidate-facts");
    if (isNew(list.dataset, "told", told)) list.replaceChildren(...told.map((text) => make("li", { text })));
  }
}

function show(cell, name, found, judge) {
  const by = againstBase(judge.better, found);
  if (!isNew(cell.dataset, "told", [short(name, found?.mean), halfInterval(name, found), by?.mark])) return;
  cell.title = found ? `${NAMES[name]}: ${short(name, found.low)} to ${short(name, found.high)} over ${counted(found.count, "sentence")}${by ? `; ${by.words}` : ""}` : "";
  cell.replaceChildren(
    ...(by ? [make("span", { class: `mark ${by.mark === "▼" ? "worse" : ""}`, "aria-hidden": "true", text: by.mark === "▼" ? "▼ worse" : by.mark }), make("span", { class: "hidden", text: `${by.words}: ` })] : []),
    make("span", { text: short(name, found?.mean) }), make("span", { class: "plus", text: halfInterval(name, found) }));
}

function titleOf(column) {
  return { epoch: "Epoch", astray: "Astray", loss: "Audio loss" }[column] ?? NAMES[column];
}

function tipOf(column, evaluation) {
  return { epoch: "", astray: ASTRAY, loss: LOSS }[column] ?? meaning(evaluation, column);
}

/** The same meanings as text, for who has neither a pointer nor a wish to walk through headings. */
function define(evaluation, columns) {
  const entry = (term, text) => [make("dt", { text: term }), make("dd", { text })];
  find("meanings").replaceChildren(...entry("Figures", INTERVAL),
    ...columns.filter((column) => column !== "epoch").flatMap((column) => entry(titleOf(column), tipOf(column, evaluation))),
    ...absent(evaluation).flatMap((name) => entry(NAMES[name], `Did not judge: ${evaluation.judges[name].absent}`)));
}

/** Which one is best and why, and what to do about it. promote(epoch), follow(): what is offered. */
export function showVerdict(run, { promoted, follows }, { promote, follow }) {
  const { verdict } = run.evaluation;
  const best = verdict && candidatesOf(run).find((one) => one.id === verdict.candidate);
  say(find("verdict"), verdict ? verdict.reason : "No verdict yet: the base and an epoch are to be judged first.");
  say(find("advice"), verdict?.advice ?? "");
  find("advice").hidden = !verdict?.advice;
  const wanted = best && !best.is_served && run.id === "current" ? best : null;
  find("suggestion").hidden = !wanted;
  if (!wanted) return;
  const name = candidateName(best);
  const button = find("suggest");
  const canPromote = best.kind === "epoch" && best.can_speak;
  const canFollow = promoted && follows === "best";
  say(find("suggestion-text"), canPromote || canFollow ? `${capital(name)} is not what is served.`
    : `${capital(name)} is not what is served: leave VOICE empty, or set VOICE=best.`);
  say(button, `Serve ${name}`);
  button.hidden = !canPromote && !canFollow;
  button.onclick = () => (canFollow ? follow() : promote(best.epoch));
}
