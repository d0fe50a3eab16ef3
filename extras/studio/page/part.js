// The studio's part of the page: the first steps, datasets, and trainings.

import { find, options } from "../elements.js";
import { LANGUAGES, languageOptions } from "../wording.js";
import { Reading } from "./reading.js";
import { Recordings } from "./recordings.js";
import { Start } from "./start.js";
import { Trainings } from "./trainings.js";

export class Part {
  events = ["dataset", "training"];
  #recordings = new Recordings();
  #reading = new Reading();
  #start = new Start();
  #trainings;

  constructor({ opened, changed }) {
    this.#trainings = new Trainings({ opened, changed, read: (datasets, queue) => this.#start.know(datasets, queue) });
  }

  soon() {
    for (const one of [this.#recordings, this.#reading, this.#trainings]) one.soon();
  }

  /** Recordings may have a language of XTTS-v2 or of the served voice. */
  offer(languages) {
    const recorded = languageOptions([...new Set([...LANGUAGES, ...languages])]);
    for (const id of ["reading-language", "dataset-language"]) options(find(id), recorded, "en");
  }

  /** The run's newest training or null. */
  trainingOf(run) {
    return this.#trainings.of(run);
  }

  /** runs: of /v1/runs. */
  runs(runs) {
    this.#start.show(runs);
    this.#trainings.know(runs);
  }
}
