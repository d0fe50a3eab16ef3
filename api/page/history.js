// The texts that this browser has requested, only in its local storage.

import { find, make, say, smallButton, store, stored } from "./elements.js";
import { counted } from "./wording.js";

const KEPT = "sotaque-history";
const MOST = 20;

/** Voice, language and numbers of a request, which tell requests for one text apart. Pure. */
export function aboutRequest({ input, voice, who, ...more }) {
  return [who || voice, ...Object.entries(more).map(([name, value]) => `${name} ${value}`)].filter(Boolean).join(", ");
}

export class History {
  /** chosen(request): called when the person chooses an entry. */
  constructor(chosen) {
    this.chosen = chosen;
    find("forget-history").addEventListener("click", () => {
      this.#keep([]);
      find("text").focus();
    });
    this.#show();
  }

  /**
   * request: {input, voice, who, …} as it was sent; voice: a value of the list of voices; who: its text. A
   * repeated request moves to the front.
   */
  add(request) {
    const added = JSON.stringify(request);
    const others = kept().filter((one) => JSON.stringify(one) !== added);
    this.#keep([request, ...others].slice(0, MOST));
  }

  #keep(list) {
    store(KEPT, list);
    this.#show();
  }

  #show() {
    const list = kept();
    say(find("history-title"), `History (${counted(list.length, "text")})`);
    find("forget-history").disabled = list.length === 0;
    find("history-list").replaceChildren(...list.map((one) =>
      make("li", {}, smallButton(one.input, { onclick: () => this.chosen(one) }), make("span", { class: "quiet", text: aboutRequest(one) }))));
  }
}

const kept = () => stored(KEPT).filter((one) => typeof one?.input === "string");
