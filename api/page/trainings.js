// Trainings: asks for one on the dataset that is shown, and lists all of them with their progress.

import { complain, entry, find, isNew, make, say, smallButton, tried } from "./elements.js";
import { read, send } from "./server.js";
import { timeLeft } from "./wording.js";

const LOOK_MILLISECONDS = 3000;
const OPEN = ["queued", "checking", "running", "interrupted"];
const STATES = { queued: "Waits.", checking: "Checks the clips.", running: "Trains.", done: "Done. Its epochs are above.", failed: "Failed.", cancelled: "Cancelled.", interrupted: "Goes on when the trainer starts." };

/** How far a training is: "Trains. Epoch 2 of 4, step 10 of 50, about 3 min left." */
export function trainingInfo({ state, ahead, cancelling, progress, message }) {
  if (cancelling) return "Is cancelled as soon as its state is saved.";
  const parts = [state === "queued" && ahead ? `Waits for ${ahead} before it.` : STATES[state]];
  if (progress && OPEN.includes(state)) {
    const { epoch, epochs, step, steps, seconds_left: left } = progress;
    parts.push(`Epoch ${epoch} of ${epochs}, step ${step} of ${steps}, ${timeLeft(left ?? NaN)}.`);
  }
  return [...parts, message].filter(Boolean).join(" ");
}

export class Trainings {
  #dataset = null;
  #timer = null;

  constructor() {
    find("train-form").addEventListener("submit", (event) => this.#ask(event));
  }

  /** dataset: as /v1/datasets/{id} tells it; null or one without clips asks the server nothing. */
  async show(dataset) {
    clearTimeout(this.#timer);
    this.#dataset = dataset?.train ? dataset : null;
    if (!this.#dataset) return;
    const name = find("train-form").elements.run;
    if (isNew(this, "named", this.#dataset.id)) name.value = this.#dataset.id.slice(0, 40).replace(/-$/, "");
    await this.#refresh();
  }

  async #refresh() {
    clearTimeout(this.#timer);
    try {
      const told = await read("/v1/trainings");
      find("train-form").hidden = !told.allowed;
      say(find("train-note"), told.message);
      // A button with the focus is replaced only if something has changed.
      if (isNew(this, "rows", told.trainings)) find("trainings").replaceChildren(...told.trainings.map((one) => this.#row(one)));
      if (told.trainings.some((one) => OPEN.includes(one.state))) this.#timer = setTimeout(() => !document.hidden && this.#refresh(), LOOK_MILLISECONDS);
    } catch (error) {
      complain(find("train-fault"), error);
    }
  }

  #row(one) {
    const row = entry(one.run || one.id, ` ${trainingInfo(one)}`);
    if (OPEN.includes(one.state) && !one.cancelling) {
      const cancel = smallButton("Cancel", { beside: one.run });
      cancel.addEventListener("click", () => this.#act(() => send("DELETE", `/v1/trainings/${encodeURIComponent(one.id)}`), `${one.run} is cancelled. Its checkpoints stay.`));
      row.append(" ", cancel);
    }
    return make("li", {}, row);
  }

  async #act(what, sentence) {
    const answer = await tried("train-fault", what, sentence);
    await this.#refresh();
    return answer;
  }

  #ask(event) {
    event.preventDefault();
    const { run, epochs } = event.target.elements;
    const settings = epochs.value ? { NUM_EPOCHS: epochs.value } : {};
    this.#act(() => send("POST", "/v1/trainings", { run: run.value, dataset: this.#dataset.id, settings }), `${run.value} is in the queue.`);
  }
}
