// What each figure of the page means. Of a run that was evaluated the judges' own words stand in
// judges.js.

import { find, make } from "./elements.js";

const LOSS = "How far the epoch's codes are from the person's own, on clips that it does not learn from. Lower is better. Compare it only between epochs of one run: other data or another base have another scale.";
// Measured with the embedded voice's encoder: docs/evaluation.md.
const SIMILARITY = "How near the sample's voice is to the recording that it was spoken from: 1 is the same sound. With the embedded voice two recordings of one person have 0.8 to 0.9, different people 0 to 0.3; another base model has a scale of its own. One sentence differs from the next by 0.2, so a small step up or down says nothing.";

// By the element that holds them: [term, meaning, id of what is told beside it].
const MEANINGS = {
  about: [
    ["Device", "What computes the speech. The CPU says the same as a GPU, only later.", "why"],
    ["Provider", "The library that computes, and on what. Where something else was asked for, that stands beside it."],
    ["Voice", "Who speaks where a request names no voice.", "voice-why"],
    ["Requests", "How many texts are being spoken, of how many at most at the same time, and how many wait for their turn."],
  ],
  "epoch-figures": [["Audio loss", LOSS], ["Similarity", SIMILARITY]],
  "curve-figures": [
    ["Training", "The audio loss on the clips that are being learned, smoothed where there are many steps. It falls even where nothing useful is learned any more."],
    ["Validation", `The audio loss of the table. ${LOSS} Where it rises while training's falls, the run learns its clips by heart.`],
    ["Similarity", SIMILARITY],
    ["Step", "One change of the weights, after one batch of clips. An epoch is as many steps as it takes to hear every clip once."],
  ],
  "decoding-figures": [
    ["Speed", "1 is as fast as the voice speaks by itself, 2 is twice as fast."],
    ["Temperature", "How freely it speaks: lower is more even, higher more lively and more often wrong. Left out it is the model's own."],
    ["Seed", "The same seed says the same; left out it is 0. Another take counts it up."],
  ],
  "spoken-figures": [
    ["First sound after", "From the press to the first sound. Of a voice that is not loaded yet, loading is part of it."],
    ["Spoken in", "How long the sound is, and how long it took to make. Where making takes longer than the sound, it cannot play without a pause."],
    ["It waited for more", "How often the sound ran out before the next piece had come."],
  ],
};

/** Fills every list of meanings. */
export function showMeanings() {
  for (const [id, entries] of Object.entries(MEANINGS)) {
    const place = find(id);
    const list = place.matches("dl") ? place : place.querySelector("dl");
    list.replaceChildren(...entries.flatMap(([term, meaning, beside]) => [
      make("dt", { text: term }),
      make("dd", {}, `${meaning} `, beside ? make("span", { id: beside }) : null),
    ]));
  }
}
