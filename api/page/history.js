// What was said in this browser: kept in its local storage, and nowhere else.

import { find, make, say } from "./elements.js";
import { counted } from "./wording.js";

const KEPT = "sotaque-history";
const MOST = 20;

export class History {
  /** chosen(request): is called with the one that the person wants again. */
  constructor(chosen) {
    this.chosen = chosen;
    find("forget-history").addEventListener("click", () => {
      this.#keep([]);
      find("text").focus();
    });
    this.#show();
  }

  /** request: {input, voice, …} as it was sent. The same one again moves to the front. */
  add(request) {
    const told = JSON.stringify(request);
    const others = this.#kept().filter((one) => JSON.stringify(one) !== told);
    this.#keep([request, ...others].slice(0, MOST));
  }

  #kept() {
    try {
      const found = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
      return Array.isArray(found) ? found.filter((one) => typeof one?.input === "string") : [];
    } catch {
      return []; // Forbidden or damaged: then nothing is kept.
    }
  }

  #keep(list) {
    try {
      localStorage.setItem(KEPT, JSON.stringify(list));
    } catch {
      // A browser that keeps nothing: the page works without.
    }
    this.#show();
  }

  #show() {
    const list = this.#kept();
    find("history").hidden = list.length === 0;
    say(find("history-title"), `Said before (${counted(list.length, "text")})`);
    find("history-list").replaceChildren(...list.map((one) => make("li", {},
      make("button", { type: "button", class: "plain small", text: one.input, onclick: () => this.chosen(one) }))));
  }
}
