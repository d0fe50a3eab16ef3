// The pure functions of the studio's part of the page (test_scripts.py).

import assert from "node:assert/strict";
import { test } from "node:test";

import { adviceFor, partsWithoutPause } from "./account.js";
import { findingsOf } from "./check.js";
import { nextStep } from "./start.js";
import { durationBy, trainingInfo } from "./trainings.js";

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

test("how long a training will take", () => {
  const ana = { run: "ana", state: "done", settings: {}, progress: { epochs: 4 }, started: "2026-01-02T03:00:00Z", ended: "2026-01-02T03:04:00Z" };
  const runs = [{ id: "ana", minutes: 2 }, { id: "ben", minutes: null }];
  const wanted = { minutes: 2, epochs: "", base: "" };
  const seconds = (more, rows = [ana]) => durationBy({ ...wanted, ...more }, rows, runs)?.seconds ?? null;
  each((more, rows) => seconds(more, rows), [
    [240, {}],
    [480, { minutes: 4 }],
    [120, { epochs: "2" }],
    // Another base, or another amount of clips, says nothing.
    [null, { base: "xtts_v2" }],
    [null, { minutes: 9 }],
    [null, { minutes: 0.4 }],
    // The number of epochs that `auto` means is known from a training with `auto`.
    [null, {}, [{ ...ana, settings: { NUM_EPOCHS: "4" } }]],
    [480, { epochs: "8" }, [{ ...ana, settings: { NUM_EPOCHS: "4" } }]],
    // One that was continued, failed or runs still was not timed whole.
    [null, {}, [ana, ana]],
    [null, {}, [{ ...ana, state: "failed" }]],
    [240, {}, [{ ...ana, run: "ben" }, ana]],
    [null, {}, []],
  ]);
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
