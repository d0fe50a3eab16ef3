// Voices: the recordings that a sentence can be spoken after.

import { announce, complain, find, make, say } from "./elements.js";
import { read, send } from "./server.js";
import { figure, moment } from "./wording.js";

const ORIGINS = { served: "of the served model", upload: "added" };

export class Voices {
  constructor() {
    find("voice-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#add(event.target);
    });
  }

  async refresh() {
    try {
      this.#show((await read("/v1/voices")).voices ?? []);
      complain(find("voices-fault"), null);
    } catch (error) {
      complain(find("voices-fault"), error);
    }
  }

  #show(voices) {
    const told = JSON.stringify(voices);
    if (told === this.told) return;
    this.told = told;
    const select = find("voice");
    const before = select.value;
    select.replaceChildren(...(voices.length ? voices : [{ id: "", name: "The model's own" }])
      .map((voice) => make("option", { value: voice.id, text: voice.name || voice.id })));
    if (voices.some((voice) => voice.id === before)) select.value = before;
    find("voices-empty").hidden = voices.length > 0;
    find("voice-list").replaceChildren(...voices.map((voice) => this.#item(voice)));
  }

  #item(voice) {
    const name = voice.name || voice.id;
    const seconds = Number.isFinite(voice.duration_seconds) ? `${figure(voice.duration_seconds, 1)} s` : "";
    const about = [seconds, ORIGINS[voice.origin] ?? voice.origin, moment(voice.created)].filter(Boolean).join(", ");
    return make("li", {},
      make("p", {}, make("span", { class: "name", text: name }), make("span", { class: "quiet", text: about })),
      voice.origin === "upload" ? this.#remover(voice, name) : null);
  }

  /** Two presses: the first asks, so that no recording is lost by one slip. */
  #remover(voice, name) {
    const button = make("button", { type: "button", class: "plain small", text: "Remove", "aria-label": `Remove ${name}` });
    const calm = () => {
      delete button.dataset.sure;
      say(button, "Remove");
      button.setAttribute("aria-label", `Remove ${name}`);
    };
    button.addEventListener("blur", calm);
    button.addEventListener("click", async () => {
      if (!button.dataset.sure) {
        button.dataset.sure = "yes";
        say(button, "Really remove");
        button.setAttribute("aria-label", `Really remove ${name}`);
        return;
      }
      await this.#change(() => send("DELETE", `/v1/voices/${encodeURIComponent(voice.id)}`), `${name} is removed.`);
      find("voices").focus();
    });
    return button;
  }

  async #add(form) {
    const body = new FormData(form);
    const button = form.querySelector("button");
    button.disabled = true;
    const added = await this.#change(() => send("POST", "/v1/voices", body), `${body.get("name")} is added.`);
    button.disabled = false;
    if (!added) return;
    form.reset();
    if (added.id) find("voice").value = added.id;
  }

  /** Does it, shows the list as it is then, and says so; what fails is told as its sentence. */
  async #change(act, sentence) {
    try {
      const answer = await act();
      await this.refresh();
      announce(sentence);
      return answer ?? {};
    } catch (error) {
      complain(find("voices-fault"), error);
      return null;
    }
  }
}
