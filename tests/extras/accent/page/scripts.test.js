// The pure functions of the vowel chart (test_chart.py).

import assert from "node:assert/strict";
import { test } from "node:test";

import { placeInWords, summaryOf, wordPlaces } from "./part.js";

test("accent: places and figures in words", () => {
  assert.equal(placeInWords([0.483, 0.41]), "48 % back, 41 % open");
  assert.equal(placeInWords([-0.1, 1.2]), "0 % back, 100 % open");
  assert.equal(summaryOf("epoch 2", { mean: 0.42, low: 0.3, high: 0.54 }), "Epoch 2 is at 0.42 ±0.12: 0 is the base, 1 the person.");
});

test("accent: words do not cover each other, and stay inside", () => {
  const words = ["bath", "goose", "fleece", "trap"].map((word, i) => ({ word, x: 255 + i, y: 100 + i }));
  const boxes = wordPlaces(words, words.map(({ x, y }) => [x, y]), 300, 200)
    .map(([x, y], i) => [x - words[i].word.length * 4, y - 8, x + words[i].word.length * 4, y + 8]);
  for (const [i, a] of boxes.entries()) {
    assert.ok(a[0] >= 28 && a[2] <= 272, JSON.stringify(a));
    for (const b of boxes.slice(i + 1)) assert.ok(a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1], JSON.stringify([a, b]));
  }
});
