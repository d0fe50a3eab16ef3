// How far the running training is, and how long it will still take.

import { find, say } from "./elements.js";
import { timeLeft } from "./wording.js";

/** run: one of /v1/runs or null; records: the rows of its metrics.jsonl. */
export function showProgress(run, records) {
  const last = run?.training ? records.findLast((row) => row.kind === "train" && row.progress) : null;
  find("progress").hidden = !last;
  if (!last) return;
  const { epochs, epoch_step: step, epoch_steps: steps, seconds_left: left } = last.progress;
  find("progress-bar").value = ((last.epoch - 1) * steps + step) / (epochs * steps);
  const isLearned = last.epoch === epochs && step === steps;
  const rest = isLearned ? "every step is learned; what is left is to save, to judge and to speak a sample" : `step ${step} of ${steps}; ${timeLeft(left)}`;
  say(find("progress-told"), `Epoch ${last.epoch} of ${epochs}, ${rest}.`);
}
