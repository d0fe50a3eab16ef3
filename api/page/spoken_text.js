// A text whose words are marked while they are spoken.

import { make } from "./elements.js";

export class SpokenText {
  #rest = null;
  #words = [];
  #now = null;

  constructor(element) {
    this.element = element;
  }

  /** The text, with none of its words timed. */
  show(text) {
    this.#rest = document.createTextNode(text);
    this.#words = [];
    this.#now = null;
    this.element.replaceChildren(this.#rest);
  }

  /**
   * More of its words, in their order: [{word, start_time, end_time}], in seconds. What the text
   * holds otherwise, such as the alias of a tag, is not marked.
   */
  add(words) {
    for (const { word, start_time: start, end_time: end } of words) {
      const at = this.#rest.data.indexOf(word);
      if (at < 0 || !word) continue;
      const found = this.#rest.splitText(at);
      this.#rest = found.splitText(word.length);
      const place = make("span", { class: "word", text: word });
      found.replaceWith(place);
      this.#words.push({ start, end, place });
    }
  }

  /** Marks what is spoken at this second; null: nothing is. */
  mark(seconds) {
    const found = seconds === null ? null : this.#words.find(({ start, end }) => start <= seconds && seconds < end);
    const place = found?.place ?? null;
    if (place === this.#now) return;
    this.#now?.classList.remove("now");
    place?.classList.add("now");
    this.#now = place;
  }
}
