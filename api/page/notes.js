// What a person thought of two candidates: kept in this browser, told as a tally. The server has
// none of it.

import { keep } from "./sound.js";
import { counted } from "./wording.js";

const KEPT = "sotaque-notes-";
const MOST = 2000;

export class Notes {
  #key = null;
  #all = [];

  /** set: the evaluation's sentence_set: the same sentences after the same recording, wherever the
      run lies now. */
  open(set) {
    if (this.#key === KEPT + set) return;
    this.#key = KEPT + set;
    try {
      const found = JSON.parse(localStorage.getItem(this.#key) ?? "[]");
      this.#all = Array.isArray(found) ? found.filter((one) => one?.a?.id && one?.b?.id) : [];
    } catch {
      this.#all = []; // No storage, or not ours: notes then last as long as the page.
    }
  }

  /** Those about the very weights that the run holds: an epoch that was trained again is another. */
  of(candidates) {
    const sha256 = new Map(candidates.map((one) => [one.id, one.checkpoint_sha256]));
    return this.#all.filter((note) => [note.a, note.b].every((one) => sha256.get(one.id) === one.sha256));
  }

  /** A judgement of the same sentence of the same two takes the place of the one before. */
  add(note) {
    const about = (one) => [one.sentence, one.blind, ...[one.a.id, one.b.id].sort(), one.a.sha256, one.b.sha256].join();
    this.#all = [...this.#all.filter((one) => about(one) !== about(note)), note].slice(-MOST);
    return this.#store();
  }

  forget(notes) {
    this.#all = this.#all.filter((one) => !notes.includes(one));
    return this.#store();
  }

  save(notes, name) {
    keep(new Blob([JSON.stringify(notes, null, 2)], { type: "application/json" }), name);
  }

  /** Whether it could be kept beyond this page. */
  #store() {
    try {
      localStorage.setItem(this.#key, JSON.stringify(this.#all));
      return true;
    } catch {
      return false;
    }
  }
}

/** "Epoch 3 against the base: better 4 times, worse once, no difference twice." for each two. Pure. */
export function tally(notes) {
  const pairs = new Map();
  for (const { a, b, preferred } of notes) {
    // A blind pair may stand either way round.
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
    `${key.charAt(0).toUpperCase()}${key.slice(1)}: better in ${counted(better, "sentence")}, worse in ${worse}, no difference in ${same}.`);
}
