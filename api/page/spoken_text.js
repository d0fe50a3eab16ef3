// A text that marks each word while it is spoken.

import { make } from "./elements.js";

export class SpokenText {
  #rest = null;
  #words = [];
  #now = null;

  constructor(element) {
    this.element = element;
  }

  /** Sets the text; its words have no times yet. */
  show(text) {
    this.#rest = document.createTextNode(text);
    this.#words = [];
    this.#now = null;
    this.element.replaceChildren(this.#rest);
  }

  /**
   * Adds words in order: [{word, start_time, end_time}], in seconds. Other parts of the text, such as the
   * alias of a tag, are not marked.
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

  /** Marks the word at this second; null marks none. */
  mark(seconds) {
    const found = seconds === null ? null : this.#words.find(({ start, end }) => start <= seconds && seconds < end);
    const place = found?.place ?? null;
    if (place === this.#now) return;
    this.#now?.classList.remove("now");
    place?.classList.add("now");
    if (place) this.#reveal(place);
    this.#now = place;
  }

  /** Scrolls a long text to the word; the page stays where it is. */
  #reveal(place) {
    const [word, box] = [place.getBoundingClientRect(), this.element.getBoundingClientRect()];
    if (word.top < box.top || word.bottom > box.bottom) this.element.scrollTop += word.top - box.top;
  }
}
