// The pure functions of the studio's part of the page (test_scripts.py).

import assert from "node:assert/strict";
import { test } from "node:test";

import { adviceFor, partsWithoutPause } from "./account.js";
import { findingsOf } from "./check.js";
import { nextStep } from "./start.js";
import { trainingInfo } from "./trainings.js";

const each = (act, rows) => rows.forEach(([wanted, ...given]) => assert.deepEqual(act(...given), wanted, JSON.stringify(given)));

test("the next step in an empty studio", () => {
  const [none, some] = [{ id: "current", epochs: [] }, { id: "current", epochs: [{}] }];
  each((clips, trainings, runs) => nextStep({ clips, trainings, runs }), [
    ["dataset", 0, [], [none]],
    ["dataset", 0, [], []],
    ["dataset", 0, [{ state: "failed" }, { state: "cancelled" }, { state: "done" }], [none]],
    ["train", 1, [], [none]],
    ["train", 1, [{ state: "failed" }], [none]],
    ...["queued", "checking", "running", "interrupted"].map((state) => ["listen", 1, [{ state }], [none]]),
    ["listen", 0, [], [{ ...none, training: true }]],
    [null, 0, [], [some]],
    [null, 1, [{ state: "running" }], [none, { ...some, id: "ana" }]],
  ]);
});

test("what a training does", () => {
  const progress = { epoch: 2, epochs: 4, step: 13, steps: 13, loss: 2.3141, seconds_left: 150, phase: "" };
  const info = (more) => trainingInfo({ state: "running", progress, ...more });
  const during = (phase) => info({ progress: { ...progress, phase } });
  assert.equal(info({}), "Training. Epoch 2 of 4, step 13 of 13, loss 2.314, about 3 min left.");
  assert.equal(during("judging"), "Training. Epoch 2 of 4, judging epoch 2, loss 2.314, about 3 min left.");
  assert.match(during("validating"), /Epoch 2 of 4, measuring the validation loss of epoch 2,/);
  assert.match(during("saving"), /Epoch 2 of 4, saving epoch 2,/);
  assert.match(during("sampling"), /Epoch 2 of 4, speaking a sample of epoch 2,/);
  assert.match(during("concluding"), /Epoch 2 of 4, all epochs trained; choosing the best,/);
  // A trainer of a later version.
  assert.match(during("resting"), /step 13 of 13/);
  assert.equal(info({ cancelling: true }), "Cancelling: its state is saved first.");
  assert.equal(info({ state: "queued", progress: null }), "Queued.");
  assert.equal(info({ state: "queued", progress: null, ahead: 1 }), "Queued behind 1 training.");
  assert.equal(info({ state: "done", message: "It has four epochs." }), "Done. It has four epochs.");
});

test("a cut that failed, and a check", () => {
  assert.match(adviceFor("9.0 s too long without a pause, 2.0 s unsure words"), /with pauses/);
  assert.match(adviceFor("2.0 s too long without a pause, 9.0 s unsure words"), /Compare the transcript/);
  assert.match(adviceFor("exit code -9"), /Press Cut again/);
  const csv = '"a, ""b""","0.0","9.0","9.0","too long without a pause",""\n"c","0","1","1","clips",""\n';
  assert.deepEqual(partsWithoutPause(csv), [{ recording: 'a, ""b""', start: 0, end: 9, seconds: 9 }]);
  assert.deepEqual(findingsOf({ refused: [{ clip: "a", seen: "0.1 s", allowed: "0.5 to 11 s" }], suspects: [{ clip: "b", reasons: "Odd." }] }),
    [{ clip: "a", text: "Training leaves it out: 0.1 s, allowed: 0.5 to 11 s." }, { clip: "b", text: "Odd." }]);
});
