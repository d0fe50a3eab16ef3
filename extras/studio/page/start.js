// The first steps in an empty studio: a dataset, a training, the first epoch.

import { find, say } from "../elements.js";
import { read } from "../server.js";
import { datasetPath } from "./paths.js";
import { counted } from "../wording.js";

const OPEN = ["queued", "checking", "running", "interrupted"];

/**
 * The next step, "dataset", "train" or "listen"; null once there is an epoch. clips: their number for training;
 * trainings: of /v1/trainings; runs: of /v1/runs. Pure.
 */
export function nextStep({ clips, trainings, runs }) {
  if (runs.some((run) => run.epochs.length)) return null;
  if (runs.some((run) => run.training) || trainings.some((one) => OPEN.includes(one.state))) return "listen";
  return clips ? "train" : "dataset";
}

export class Start {
  #datasets = [];
  #queue = { trainings: [], allowed: true };
  #runs = null;
  #counts = null;

  /** datasets: of /v1/datasets; queue: the answer of /v1/trainings. */
  async know(datasets, queue) {
    this.#queue = queue;
    this.#datasets = datasets;
    this.#counts = null;
    await this.#look();
  }

  /** runs: of /v1/runs. */
  async show(runs) {
    this.#runs = runs;
    await this.#look();
  }

  async #look() {
    const isEmpty = Boolean(this.#runs) && nextStep({ clips: 0, trainings: [], runs: this.#runs }) !== null;
    // The clips are counted only while the next step depends on them.
    if (isEmpty) this.#counts ??= this.#count();
    const counts = isEmpty ? await this.#counts.catch(() => []) : [];
    const kept = counts.filter((one) => one.clips.kept);
    const step = isEmpty ? nextStep({ clips: kept.length, trainings: this.#queue.trainings, runs: this.#runs }) : null;
    for (const item of find("start").querySelectorAll("[data-step]")) {
      if (item.dataset.step === step) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    }
    if (kept.length) say(find("start-dataset"), `${kept.map(described).join(" ")} More recordings make a better voice.`);
    say(find("start-train"), this.#queue.allowed
      ? "Choose the dataset, check its clips, and press Train. You may close the page while it runs."
      : "This service does not start training. Copy the command under Cut long recordings, and run it where you train.");
  }

  #count() {
    const ready = this.#datasets.filter((one) => one.read_aloud || one.state === "done");
    return Promise.all(ready.map((one) => read(datasetPath(one.id))));
  }
}

const described = ({ name, clips }) => `${name}: ${counted(clips.kept, "clip")}, ${(clips.kept_seconds / 60).toFixed(1)} minutes.`;
