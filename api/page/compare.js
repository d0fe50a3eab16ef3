// Compares two candidates of one run or two on the desk: pair, sentence, blind mode, judgement.

import { announce, find, make, options, say, store, stored, twice } from "./elements.js";
import { NAMES, short } from "./judges.js";
import { keep } from "./sound.js";
import { candidateName, capital, counted, fileName, runName } from "./wording.js";

const SAMPLE = "sample";
const KEPT = "sotaque-notes-";
const MOST = 2000;
const BLIND = { output: "A", reference: "B" };
// The buttons, and the candidate that each prefers.
const VOTES = [["prefer-a", "a"], ["prefer-none", null], ["prefer-b", "b"]];
const KEYS = { 1: "prefer-a", 0: "prefer-none", 2: "prefer-b", r: "reveal", n: "next-sentence" };

/** The best of every other evaluated run in the language of `run`; `inRun` is its run. Pure. */
export function rivalsOf(run, runs) {
  const others = runs.filter((one) => one.id !== run.id && one.evaluation?.language === run.evaluation.language);
  return others.flatMap((one) => one.evaluation.candidates.filter((best) => best.is_best)
    .map((best) => ({ ...best, id: `${one.id}/${best.id}`, candidate: best.id, inRun: one.id, made_at: one.evaluation.made_at, of_run: runName(one), of: null })));
}

export class Comparison {
  #run = null;
  #candidates = [];
  #said = new Map();
  #chosen = null;
  #against = null;
  #swapped = false;
  #hidden = false;
  #notes = new Notes();
  // The vote on this pair since it was drawn: "a", "b", or null for no difference; undefined without one.
  #vote;
  #picked = false;

  /**
   * changed(): called when the sentence, the pair or its names change; wanted(run): called when the
   * sentences of another run are needed.
   */
  constructor(desk, { changed, wanted }) {
    Object.assign(this, { desk, changed, wanted });
    find("sentence").addEventListener("change", () => (this.#picked = true));
    for (const id of ["sentence", "against", "blind"]) find(id).addEventListener("change", () => this.#begin());
    for (const [id, preferred] of VOTES) {
      find(id).addEventListener("click", () => this.#judge(preferred));
    }
    find("reveal").addEventListener("click", () => this.#reveal());
    find("next-sentence").addEventListener("click", () => this.#next());
    find("save-notes").addEventListener("click", () => this.#notes.save(this.#shownNotes(), fileName(this.#run.id, "notes.json")));
    twice(find("delete-notes"), "Delete notes", () => this.#delete());
    find("desk").addEventListener("keydown", (event) => this.#key(event));
  }

  /**
   * chosen: a candidate's id; runs: all; known: run -> its /v1/runs/…/evaluation. The desk stays empty until
   * that of `run` is known.
   */
  show(run, candidates, chosen, { runs, details: known }) {
    const details = known.get(run.id);
    if (!details) return;
    this.#run = run;
    this.#said = new Map(details.candidates.map((one) => [one.id, one.sentences]));
    const rivals = rivalsOf(run, runs);
    this.#candidates = [...candidates, ...rivals];
    for (const one of rivals) this.#align(one, known.get(one.inRun), this.#said.get(chosen) ?? []);
    this.#notes.open(run.evaluation.sentence_set);
    if (chosen !== this.#chosen) {
      this.#chosen = chosen;
      this.#shuffle();
    }
    this.#offer();
    const one = this.#candidate(chosen);
    const sample = find("sentence").value === SAMPLE;
    const works = Boolean(one) && !sample && Boolean(this.#sound(chosen)) && Boolean(this.#against);
    find("pair").hidden = !one || find("sentence").options.length === 0;
    find("against").disabled = find("blind").disabled = sample || !this.#against;
    find("judgement").hidden = !works;
    if (works && !this.#said.has(this.#against.id)) return void this.wanted(this.#against.inRun);
    if (!one || sample || !find("sentence").options.length) this.desk.show(run.id, one?.of ?? null);
    else this.#put(one);
    if (!find("judgement").hidden) this.#tellNotes();
    else find("by-ear").hidden = true;
  }

  /** The sentences of another run's candidate, in the order of these; unknown without details. */
  #align(one, details, sentences) {
    if (details?.made_at !== one.made_at) return;
    const said = details.candidates.find((other) => other.id === one.candidate)?.sentences ?? [];
    this.#said.set(one.id, sentences.map(({ text, seed }) => said.find((other) => other.text === text && other.seed === seed) ?? null));
  }

  hide() {
    find("pair").hidden = find("judgement").hidden = true;
    this.#run = this.#chosen = null;
  }

  /** Offers the sentences of the chosen candidate and the candidates to compare it with. */
  #offer() {
    const said = this.#said.get(this.#chosen) ?? [];
    const one = this.#candidate(this.#chosen);
    const sentences = said.map((sentence, i) => ({ value: String(i), text: `${i + 1}. ${sentence.text}`, sound: sentence.sound }));
    if (one?.of?.sample?.output) sentences.push({ value: SAMPLE, text: "Training sample and reference recording", sound: true });
    options(find("sentence"), sentences.filter((sentence) => sentence.sound), "0", this.#picked);
    const others = this.#candidates.filter((other) => other.id !== this.#chosen && (this.#sound(other.id) || (other.inRun && !this.#said.has(other.id))));
    const wanted = others.find((other) => other.kind === "base") ?? others.find((other) => other.is_best);
    options(find("against"), others.map((other) => ({ value: other.id, text: capital(candidateName(other)) })), wanted?.id);
    this.#against = this.#candidate(find("against").value);
    if (!this.#against) this.#hidden = this.#swapped = false;
  }

  #put(one) {
    const other = this.#against;
    const urls = this.#sides([this.#sound(one.id), other && this.#sound(other.id)]);
    const names = this.#sides([candidateName(one), other ? candidateName(other) : "nothing"]);
    const sentence = this.#sentence(one.id);
    this.desk.put({
      key: JSON.stringify([this.#run.id, urls]),
      chosen: one.id,
      title: this.#hidden ? "Blind comparison" : capital(other ? `${candidateName(one)} and ${candidateName(other)}` : candidateName(one)),
      text: sentence?.text ?? "",
      about: this.#hidden ? "" : [one, other].filter(Boolean).map((each) => this.#outcome(each)).join(" "),
      empty: urls.output || urls.reference ? "" : "No audio was kept for this sentence.",
      urls,
      names: this.#hidden ? BLIND : names,
      inTurn: this.#hidden,
      file: this.#hidden ? null : fileName(this.#run.id, this.#swapped ? other.id : one.id, `${find("sentence").value}.wav`),
    });
    say(find("prefer-a").firstChild, `${this.#hidden ? "A" : capital(names.output)} is better `);
    say(find("prefer-b").firstChild, `${this.#hidden ? "B" : capital(names.reference)} is better `);
    this.#markVote();
    find("reveal").hidden = !find("blind").checked;
    find("reveal").disabled = !this.#hidden;
  }

  /** [chosen, other] as the two lanes show them. */
  #sides([one, other]) {
    return this.#swapped ? { output: other, reference: one } : { output: one, reference: other };
  }

  #outcome(one) {
    const sentence = this.#sentence(one.id);
    if (!sentence) return "";
    const figures = Object.entries(sentence.judges ?? {}).filter(([name, value]) => NAMES[name] && Number.isFinite(value));
    const results = figures.map(([name, value]) => `${NAMES[name].toLowerCase()} ${short(name, value)}`);
    return `${capital(candidateName(one))}: ${[sentence.outcome, ...results].join(", ")}.`;
  }

  #begin() {
    this.#shuffle();
    say(find("judged-info"), "");
    this.changed();
  }

  /** Draws which of the two is A for every sentence, so that the listener cannot learn it. */
  #shuffle() {
    this.#hidden = find("blind").checked;
    this.#swapped = this.#hidden && crypto.getRandomValues(new Uint8Array(1))[0] > 127;
    find("note").value = "";
    this.#vote = undefined;
  }

  /** Marks the vote. In blind mode, not one of an earlier visit: it would reveal which candidate is which. */
  #markVote() {
    const vote = this.#vote !== undefined || this.#hidden ? this.#vote : this.#earlierVote();
    for (const [id, preferred] of VOTES) find(id).setAttribute("aria-pressed", String(vote === preferred));
  }

  #earlierVote() {
    const { output, reference } = this.#sides([this.#chosen, this.#against?.id]);
    const note = this.#notes.of(this.#candidates).findLast((one) => one.sentence === Number(find("sentence").value)
      && [one.a.id, one.b.id].sort().join() === [output, reference].sort().join());
    if (!note?.preferred) return note?.preferred;
    return note[note.preferred].id === output ? "a" : "b";
  }

  #judge(preferred) {
    const [one, other] = [this.#candidate(this.#chosen), this.#against];
    const about = (each) => ({ id: each.id, sha256: each.checkpoint_sha256, name: candidateName(each) });
    const { output: a, reference: b } = this.#sides([about(one), about(other)]);
    const sentence = Number(find("sentence").value);
    const kept = this.#notes.add({
      at: new Date().toISOString(), run: this.#run.id, sentence, text: this.#sentence(one.id).text,
      a, b, preferred, blind: this.#hidden, note: find("note").value.trim(),
    });
    const what = preferred ? `${this.#hidden ? preferred.toUpperCase() : { a, b }[preferred].name} is better` : "no difference";
    this.#vote = preferred;
    const where = kept ? "Noted" : "Noted until you close this page, because this browser does not store data";
    say(find("judged-info"), `${where}: ${what}, sentence ${sentence + 1}.`);
    this.changed();
  }

  #reveal() {
    if (!this.#hidden) return;
    this.#hidden = false;
    const { output, reference } = this.#sides([this.#candidate(this.#chosen), this.#against]);
    const vote = { a: " You preferred A.", b: " You preferred B.", null: " You noted no difference." }[this.#vote] ?? "";
    const names = `A is ${candidateName(output)}, B is ${candidateName(reference)}.${vote}`;
    say(find("judged-info"), names);
    announce(names);
    this.changed();
  }

  #next() {
    const select = find("sentence");
    const sentences = [...select.options].filter((option) => option.value !== SAMPLE);
    const at = sentences.findIndex((option) => option.selected);
    select.value = sentences[(at + 1) % sentences.length].value;
    this.#picked = true;
    this.#begin();
    if (this.#hidden) this.desk.playSoon();
    announce(`Sentence ${Number(select.value) + 1} of ${sentences.length}.`);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type='range'], [type='checkbox']), select, textarea")) return;
    const button = find(KEYS[event.key.toLowerCase()] ?? "");
    if (!button || find("judgement").hidden || button.hidden || button.disabled) return;
    event.preventDefault();
    button.click();
  }

  /** How many sentences of this pair were judged blind; after the last one, what that says. */
  #tellSum() {
    const pair = [this.#chosen, this.#against.id].sort().join();
    const blind = this.#notes.of(this.#candidates).filter((note) => note.blind && [note.a.id, note.b.id].sort().join() === pair);
    const total = [...find("sentence").options].filter((option) => option.value !== SAMPLE).length;
    const sum = `${blind.length} of ${total}`;
    say(find("blind-sum"), find("blind").checked || blind.length ? `Judged blind: ${sum}.${blind.length < total ? "" : ` ${sumOf(blind)}`}` : "");
    find("by-ear").hidden = blind.length < total;
    say(find("by-ear"), blind.length < total ? "" : `By your ear, blind: ${sumOf(blind)}`);
  }

  #tellNotes() {
    this.#tellSum();
    const all = this.#notes.of(this.#candidates);
    const shown = this.#shownNotes();
    say(find("notes-title"), `Notes (${all.length})`);
    const kept = all.length - shown.length;
    const counts = [...tally(shown), kept ? `${counted(kept, "blind note")} of this comparison hidden until you reveal it.` : ""];
    say(find("tally"), counts.filter(Boolean).join(" ") || "No notes yet.");
    find("note-list").replaceChildren(...shown.map((note) => make("li", { text: sentenceOf(note) })));
    for (const id of ["save-notes", "delete-notes"]) find(id).disabled = all.length === 0;
  }

  /** Without the notes about a blind pair, which would reveal which candidate is which. */
  #shownNotes() {
    const pair = [this.#chosen, this.#against?.id].sort().join();
    return this.#notes.of(this.#candidates).filter((note) => !this.#hidden || [note.a.id, note.b.id].sort().join() !== pair);
  }

  #delete() {
    this.#notes.forget(this.#notes.of(this.#candidates));
    this.#vote = undefined;
    this.changed();
    announce("The notes are deleted.");
  }

  #candidate(id) {
    return this.#candidates.find((one) => one.id === id) ?? null;
  }

  #sentence(id) {
    return this.#said.get(id)?.[Number(find("sentence").value)] ?? null;
  }

  #sound(id) {
    return this.#sentence(id)?.sound ?? null;
  }
}

function sentenceOf({ sentence, text, a, b, preferred, blind, note }) {
  const what = preferred ? `${{ a, b }[preferred].name} better than ${{ a: b, b: a }[preferred].name}` : `no difference between ${a.name} and ${b.name}`;
  return `${sentence + 1}. ${text} ${capital(what)}${blind ? ", blind" : ""}.${note ? ` ${note}` : ""}`;
}

// The person's judgements about pairs of candidates, stored only in this browser.
class Notes {
  #key = null;
  #all = [];

  /** set: the evaluation's sentence_set, which stays the same if the run moves. */
  open(set) {
    if (this.#key === KEPT + set) return;
    this.#key = KEPT + set;
    // Without local storage, notes last as long as the page.
    this.#all = stored(this.#key).filter((one) => one?.a?.id && one?.b?.id);
  }

  /** The notes about the run's current weights, by their SHA-256. */
  of(candidates) {
    const sha256 = new Map(candidates.map((one) => [one.id, one.checkpoint_sha256]));
    return this.#all.filter((note) => [note.a, note.b].every((one) => sha256.get(one.id) === one.sha256));
  }

  /** Replaces an earlier judgement of the same sentence and the same pair. */
  add(note) {
    const about = (one) => [one.sentence, one.blind, ...[one.a.id, one.b.id].sort(), one.a.sha256, one.b.sha256].join();
    this.#all = [...this.#all.filter((one) => about(one) !== about(note)), note].slice(-MOST);
    return store(this.#key, this.#all);
  }

  forget(notes) {
    this.#all = this.#all.filter((one) => !notes.includes(one));
    return store(this.#key, this.#all);
  }

  save(notes, name) {
    keep(new Blob([JSON.stringify(notes, null, 2)], { type: "application/json" }), name);
  }
}

/**
 * The chance that two candidates nobody can tell apart get votes as far from even as these, or further: the
 * two-sided binomial test. Pure.
 */
export function luckOf(votes, others) {
  const total = votes + others;
  let [ways, sum] = [1, 0];
  for (let count = 0; count <= Math.min(votes, others); count += 1) {
    sum += ways;
    ways *= (total - count) / (count + 1);
  }
  return Math.min(1, (2 * sum) / 2 ** total);
}

/** "Epoch 2 8, the base 3, no difference 1. Chance alone gives …" of the blind notes about one pair. Pure. */
export function sumOf(notes) {
  const names = [...new Map(notes.flatMap(({ a, b }) => [[a.id, a.name], [b.id, b.name]]))].sort(([x], [y]) => (x === "base") - (y === "base") || x.localeCompare(y));
  const votes = names.map(([id]) => notes.filter((note) => note[note.preferred]?.id === id).length);
  const [most, least] = [Math.max(...votes), Math.min(...votes)];
  const ties = notes.length - most - least;
  const said = ties ? `, no difference ${ties === 1 ? "once" : `${ties} times`}` : "";
  if (most === least) return `As often the one as the other (${most} : ${least}${said}).`;
  const luck = luckOf(most, least);
  const winner = capital(names[votes.indexOf(most)][1]);
  const chance = luck < 0.01 ? "less than 1 %" : `${Math.round(100 * luck)} %`;
  return `${winner} is preferred ${most} : ${least}${said}. Guessing gives such a result in ${chance} of tests${luck > 0.05 ? ": it may be luck" : ""}.`;
}

/** "Epoch 3 against the base: better 4 times, worse once, no difference twice." for each two. Pure. */
export function tally(notes) {
  const pairs = new Map();
  for (const { a, b, preferred } of notes) {
    // A blind pair may be in either order.
    const [one, other] = [a, b].sort((x, y) => (x.id === "base") - (y.id === "base") || x.id.localeCompare(y.id));
    const key = `${one.name} against ${other.name}`;
    const found = pairs.get(key) ?? { better: 0, worse: 0, same: 0 };
    const winner = { a, b }[preferred];
    if (!winner) found.same += 1;
    else if (winner.id === one.id) found.better += 1;
    else found.worse += 1;
    pairs.set(key, found);
  }
  return [...pairs].map(([key, { better, worse, same }]) =>
    `${capital(key)}: better in ${counted(better, "sentence")}, worse in ${worse}, no difference in ${same}.`);
}
