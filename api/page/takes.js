// The takes: text, voice, numbers and sound of what was spoken last, in this browser alone (IndexedDB).

import { complain, find, make, menu, say, smallButton, twice } from "./elements.js";
import { clock, counted } from "./wording.js";

const DATABASE = "sotaque";
// Starred takes are kept beside these.
export const MOST = 20;
// Sound takes 48 kB a second: an hour and ten minutes.
export const MAX_BYTES = 200e6;

/** The numbers and the language of a request, which tell takes of one text apart: "seed 7, speed 1.5". Pure. */
export function aboutRequest({ language, seed = 0, speed, temperature }) {
  const more = Object.entries({ speed, temperature }).filter(([, value]) => value !== undefined).map(([name, value]) => `${name} ${value}`);
  return [`seed ${seed}`, ...more, language].filter(Boolean).join(", ");
}

/**
 * The ids of the takes that no longer fit: of those without a star all but the newest `most`, then the oldest,
 * those with a star last, until the rest has at most `bytes`. takes: newest first, {id, starred, bytes}. Pure.
 */
export function outdated(takes, most = MOST, bytes = MAX_BYTES) {
  const unstarred = takes.filter((one) => !one.starred);
  const gone = new Set(unstarred.slice(most).map((one) => one.id));
  const inOrder = [...unstarred.slice(0, most).reverse(), ...takes.filter((one) => one.starred).reverse()];
  let sum = takes.filter((one) => !gone.has(one.id)).reduce((all, one) => all + one.bytes, 0);
  for (const one of inOrder) {
    // The newest take is the one that was just spoken.
    if (sum <= bytes || one === takes[0]) continue;
    gone.add(one.id);
    sum -= one.bytes;
  }
  return [...gone];
}

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/** The database; without one (a private window may have none) takes last as long as the page. */
class Store {
  #sounds = new Map();
  #database = null;

  /** Every take without its sound, newest first. */
  async open() {
    try {
      const opening = indexedDB.open(DATABASE, 1);
      opening.onupgradeneeded = () => {
        opening.result.createObjectStore("takes", { keyPath: "id" });
        opening.result.createObjectStore("sounds");
      };
      this.#database = await done(opening);
      // Another tab deletes the takes, or has a newer page.
      this.#database.onversionchange = () => this.#database.close();
      return (await done(this.#of("takes").getAll())).sort((a, b) => b.id - a.id);
    } catch {
      return [];
    }
  }

  #of(...names) {
    const transaction = this.#database.transaction(names, "readwrite");
    return names.length > 1 ? names.map((name) => transaction.objectStore(name)) : transaction.objectStore(names[0]);
  }

  async put(take, sound) {
    if (!this.#database) return void (sound && this.#sounds.set(take.id, sound));
    const [takes, sounds] = this.#of("takes", "sounds");
    takes.put(take);
    if (sound) await done(sounds.put(sound, take.id));
    return undefined;
  }

  async sound(id) {
    return this.#database ? done(this.#of("sounds").get(id)) : this.#sounds.get(id);
  }

  remove(ids) {
    for (const id of ids) this.#sounds.delete(id);
    if (!this.#database || !ids.length) return undefined;
    const stores = this.#of("takes", "sounds");
    return Promise.all(ids.flatMap((id) => stores.map((store) => done(store.delete(id)))));
  }
}

export class Takes {
  #store = new Store();
  #takes = [];
  #rows = new Map();
  // The take that sounds or sounded last.
  #now = null;
  #opened;

  /** play(take, sound), save(take, sound), compare(take, sound), restore(take): the person's presses. */
  constructor({ play, save, compare, restore }) {
    Object.assign(this, { play, save, compare, restore });
    twice(find("forget-takes"), "Delete all", () => this.#remove(this.#takes.map((one) => one.id)));
    this.#opened = this.#store.open().then((takes) => {
      this.#takes = takes;
      this.#show();
    });
  }

  /**
   * take: {text, path, body, who, spokenBy, mark, seconds, words}; sound: s16le bytes. Returns the take, which
   * then has an id.
   */
  async add(take, sound) {
    await this.#opened;
    const kept = { ...take, id: Math.max(Date.now(), (this.#takes[0]?.id ?? 0) + 1), starred: false, bytes: sound.byteLength };
    this.#takes.unshift(kept);
    try {
      await this.#store.put(kept, sound);
    } catch {
      this.#takes = this.#takes.filter((one) => one !== kept);
      find("takes").hidden = false;
      complain(find("takes-fault"), { message: "This browser has no room for the sound of another take. Delete some." });
      return kept;
    }
    await this.#remove(outdated(this.#takes));
    this.mark(kept.id);
    return kept;
  }

  /** Marks the take that is in the player; playing: whether it sounds. */
  mark(id, playing = false) {
    this.#now = id;
    for (const [each, { element, button }] of this.#rows) {
      element.classList.toggle("selected", each === id);
      button.classList.toggle("playing", each === id && playing);
      button.setAttribute("aria-label", `${each === id && playing ? "Pause" : "Play"} ${button.dataset.of}`);
    }
  }

  async #remove(ids) {
    this.#takes = this.#takes.filter((one) => !ids.includes(one.id));
    await this.#store.remove(ids);
    complain(find("takes-fault"), null);
    this.#show();
  }

  #show() {
    const list = find("take-list");
    find("takes").hidden = this.#takes.length === 0;
    say(find("takes-info"), `${counted(this.#takes.length, "take")}, only in this browser`);
    this.#rows = new Map(this.#takes.map((take) => [take.id, this.#rows.get(take.id) ?? this.#row(take)]));
    const rows = [...this.#rows.values()].map((row) => row.element);
    for (const gone of [...list.children].filter((one) => !rows.includes(one))) gone.remove();
    rows.forEach((row, i) => list.children[i] !== row && list.insertBefore(row, list.children[i] ?? null));
    this.mark(this.#now);
  }

  #row(take) {
    const about = aboutRequest(take.body);
    const name = `${take.text.slice(0, 60)}, ${take.who}, ${about}`;
    const with_ = (act) => async () => {
      const sound = await this.#store.sound(take.id);
      if (sound) act(take, sound);
      else complain(find("takes-fault"), { message: "The sound of this take is gone: another tab has deleted it. Reload the page." });
    };
    const button = make("button", { type: "button", class: "round small", "data-of": name, "aria-label": `Play ${name}`, onclick: with_(this.play) });
    const star = make("button", { type: "button", class: "star", "aria-pressed": String(take.starred), "aria-label": `Star ${name}`, onclick: () => {
      take.starred = !take.starred;
      star.setAttribute("aria-pressed", String(take.starred));
      this.#store.put(take);
    } });
    const remove = smallButton("Delete", { beside: name, onclick: async () => {
      const at = this.#takes.indexOf(take);
      await this.#remove([take.id]);
      (find("take-list").children[Math.min(at, this.#takes.length - 1)]?.querySelector("button") ?? find("text")).focus();
    } });
    const element = make("li", {}, button,
      make("p", {}, make("span", { class: "take-text", text: take.text }), make("span", { class: "quiet", text: `${take.who}, ${about}, ${clock(take.seconds)}` })),
      star, menu(name, smallButton("Compare", { beside: name, onclick: with_(this.compare) }), smallButton("Save", { beside: name, onclick: with_(this.save) }), smallButton("Use again", { beside: name, onclick: () => this.restore(take) }), remove));
    return { element, button };
  }
}
