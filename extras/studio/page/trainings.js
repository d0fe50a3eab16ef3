// Trainings: checks a dataset and trains on it; lists all trainings with their progress.

import { Check } from "./check.js";
import { calmly, complainOfRefresh, entry, find, isNew, make, options, say, smallButton, tell, tried } from "../elements.js";
import { datasetPath } from "./paths.js";
import { read, send } from "../server.js";
import { capital, counted, figure, progressInfo, roughTime, runName, timeLeft } from "../wording.js";

const LOOK_MILLISECONDS = 3000;
const FOLDER = "";
const OPEN = ["queued", "checking", "running", "interrupted"];
const STATES = { queued: "Queued.", checking: "Checking the clips.", running: "Training.", done: "Done.", failed: "Failed.", cancelled: "Cancelled.", interrupted: "Continues when the trainer starts." };

/** The progress of a training: "Training. Epoch 2 of 4, step 10 of 50, loss 2.314, about 3 min left." Pure. */
export function trainingInfo({ state, ahead, cancelling, progress, message }) {
  if (cancelling) return "Cancelling: its state is saved first.";
  const parts = [state === "queued" && ahead ? `Queued behind ${counted(ahead, "training")}.` : STATES[state]];
  if (progress && OPEN.includes(state)) {
    const { loss, seconds_left: left } = progress;
    parts.push(`${capital(progressInfo(progress))}, loss ${figure(loss)}, ${timeLeft(left ?? NaN)}.`);
  }
  return [...parts, message].filter(Boolean).join(" ");
}

// A training of so many times fewer or more minutes of clips says nothing: judging does not depend on them.
const MAX_TIMES = 4;

/**
 * {seconds, run}: how long a training will take, by the newest finished one with the same base, of this run; null if
 * none is like it. minutes: of its clips; epochs: "" for auto; trainings: of /v1/trainings; runs: of /v1/runs. Pure.
 */
export function durationBy({ minutes, epochs, base }, trainings, runs) {
  for (const { run, state, settings, progress, started, ended } of trainings) {
    const of = runs.find((one) => one.id === run);
    const share = minutes / (of?.minutes ?? NaN);
    const isWhole = state === "done" && progress && trainings.filter((one) => one.run === run).length === 1;
    const isLike = (settings.BASE_MODEL ?? "") === base && (epochs || !settings.NUM_EPOCHS);
    if (isWhole && isLike && share <= MAX_TIMES && share >= 1 / MAX_TIMES) {
      return { seconds: ((new Date(ended) - new Date(started)) / 1000) * share * (epochs ? epochs / progress.epochs : 1), run: of };
    }
  }
  return null;
}

export class Trainings {
  #timer = null;
  // Whether the person has begun to fill in the form: a new dataset is then not chosen automatically.
  #touched = false;
  #rows = [];
  #runs = [];
  // The clips of the chosen dataset, as /v1/datasets tells them; null for a folder.
  #clips = null;
  #check = new Check();

  /**
   * opened(run): shows the epochs of a run; changed(): called when the list has changed; read(datasets, queue):
   * called with the datasets and the answer of /v1/trainings.
   */
  constructor({ opened, changed, read: told }) {
    Object.assign(this, { opened, changed, told });
    this.form = find("train-form");
    this.soon = calmly(() => this.refresh(), 1000);
    this.form.addEventListener("submit", (event) => this.#ask(event));
    this.form.addEventListener("input", () => {
      this.#touched = true;
      this.#tellTime();
    });
    find("train-dataset").addEventListener("change", () => this.#chosen());
    find("check").addEventListener("click", () => this.#check.ask({ dataset: this.#dataset, settings: this.#settings }, !this.#isFolder));
  }

  /** The newest training of a run. */
  of(run) {
    return this.#rows.find((one) => one.run === run) ?? null;
  }

  /** runs: of /v1/runs. */
  know(runs) {
    this.#runs = runs;
    this.#tellTime();
  }

  async refresh() {
    clearTimeout(this.#timer);
    try {
      const [{ datasets }, told] = await Promise.all([read("/v1/datasets"), read("/v1/trainings")]);
      await this.told(datasets, told); // The steps above change their height.
      this.form.hidden = !told.allowed;
      tell(find("train-note"), told.message);
      this.#offer(datasets.filter((one) => one.read_aloud || one.state === "done"));
      // A button with the focus is replaced only if something has changed.
      if (isNew(this, "rows", told.trainings)) {
        this.#rows = told.trainings;
        this.#tellTime();
        find("trainings").replaceChildren(...told.trainings.map((one) => this.#row(one)));
        this.changed();
      }
      complainOfRefresh(find("train-fault"), null);
      if (told.trainings.some((one) => OPEN.includes(one.state))) this.#timer = setTimeout(() => !document.hidden && this.refresh(), LOOK_MILLISECONDS);
    } catch (error) {
      complainOfRefresh(find("train-fault"), error);
    }
  }

  get #isFolder() {
    return find("train-dataset").value === FOLDER;
  }

  get #dataset() {
    return this.#isFolder ? this.form.elements.folder.value : find("train-dataset").value;
  }

  get #settings() {
    const { epochs, base, samples } = this.form.elements;
    const all = { NUM_EPOCHS: epochs.value, BASE_MODEL: base.value, MAX_TRAIN_SAMPLES: samples.value };
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value));
  }

  #offer(datasets) {
    const list = [...datasets.map((one) => ({ value: one.id, text: one.name })), { value: FOLDER, text: "a folder of the server" }];
    options(find("train-dataset"), list, list[0].value, this.#touched);
    if (isNew(this, "chosenBefore", find("train-dataset").value)) this.#chosen();
  }

  #chosen() {
    const { run, folder } = this.form.elements;
    this.#check.clear();
    find("train-folder").hidden = !this.#isFolder;
    folder.required = this.#isFolder;
    run.value = find("train-dataset").value.slice(0, 40).replace(/-$/, "");
    this.#measure();
  }

  async #measure() {
    const chosen = find("train-dataset").value;
    this.#clips = null;
    this.#tellTime();
    if (chosen === FOLDER) return;
    const { clips } = await read(datasetPath(chosen)).catch(() => ({ clips: null }));
    if (chosen === find("train-dataset").value) this.#clips = clips;
    this.#tellTime();
  }

  /** Tells how long the training will take, as far as an earlier one shows it. */
  #tellTime() {
    const { epochs, base, samples } = this.form.elements;
    const { kept = 0, kept_seconds: seconds = 0 } = this.#clips ?? {};
    const minutes = (seconds / 60) * Math.min(1, samples.value / kept || 1);
    const found = minutes && durationBy({ minutes, epochs: epochs.value, base: base.value }, this.#rows, this.#runs);
    say(find("train-time"), found ? `It takes ${roughTime(found.seconds)}, going by ${runName(found.run)}.` : minutes ? "How long it takes is unknown: no training like it has ended yet." : "");
  }

  #row(one) {
    const row = make("li", {}, entry(one.run || one.id, ` ${trainingInfo(one)}`));
    const buttons = make("div", { class: "row" });
    const add = (text, act) => buttons.append(smallButton(text, { beside: one.run, onclick: act }));
    if (one.held) add("Start", () => this.#act(() => send("POST", `/v1/trainings/${encodeURIComponent(one.id)}/start`), `${one.run} is in the queue.`));
    if (one.progress) add("Listen", () => this.opened(one.run));
    if (OPEN.includes(one.state) && !one.cancelling) add("Cancel", () => this.#act(() => send("DELETE", `/v1/trainings/${encodeURIComponent(one.id)}`), `${one.run} is cancelled. Its checkpoints stay.`));
    if (one.progress && !OPEN.includes(one.state)) add("Train more", () => this.#goOn(one));
    row.append(buttons);
    if (["checking", "running"].includes(one.state)) {
      const { epoch, epochs, step, steps } = one.progress ?? {};
      // Before the first step, the bar only says that something is done.
      const share = one.progress && { max: epochs * steps, value: (epoch - 1) * steps + step };
      row.append(make("progress", { ...share, "aria-label": `Training of ${one.run}` }));
    }
    return row;
  }

  /** Fills in the form to train an ended training for more epochs. */
  #goOn({ run, dataset, settings, progress }) {
    const { folder, run: name, epochs, base, samples } = this.form.elements;
    const select = find("train-dataset");
    this.#touched = true;
    const known = [...select.options].some((option) => option.value === dataset);
    select.value = known ? dataset : FOLDER;
    this.#chosen();
    if (!known) folder.value = dataset;
    name.value = run;
    epochs.value = String(progress.epochs + 2);
    base.value = settings.BASE_MODEL ?? "";
    samples.value = settings.MAX_TRAIN_SAMPLES ?? "";
    epochs.focus();
  }

  async #act(what, sentence) {
    const answer = await tried("train-fault", what, sentence);
    await this.refresh();
    return answer;
  }

  async #ask(event) {
    event.preventDefault();
    const run = this.form.elements.run.value;
    const asked = await this.#act(() => send("POST", "/v1/trainings", { run, dataset: this.#dataset, settings: this.#settings }), `${run} is in the queue.`);
    (asked ? find("trainings").firstElementChild : find("train-fault"))?.scrollIntoView({ block: "nearest" });
  }
}
