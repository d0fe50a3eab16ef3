// The pure functions of the books' part of the page (test_scripts.py).

import assert from "node:assert/strict";
import { test } from "node:test";

import { ranges, readingInfo } from "./part.js";

const each = (act, rows) => rows.forEach(([wanted, ...given]) => assert.deepEqual(act(...given), wanted, JSON.stringify(given)));

test("books: chapters and states", () => {
  each(ranges, [["", []], ["1-3,5", [1, 2, 3, 5]], ["2", [2]], ["1,3", [1, 3]]]);
  const reading = { state: "running", ahead: 0, paused: false, plan_only: false, message: "" };
  const progress = { chapter: 2, share: 0.35, seconds_left: 720 };
  assert.equal(readingInfo({ reading, progress }), "Reading. Chapter 2, 35 %, about 12 min left.");
  assert.equal(readingInfo({ reading: { ...reading, plan_only: true } }), "Planning.");
  assert.equal(readingInfo({ reading: { ...reading, state: "queued", ahead: 2 } }), "Waits for 2 books before it.");
});
