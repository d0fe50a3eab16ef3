// The meaning of each figure on the page; those of an evaluation are in judges.js.

import { find, make } from "./elements.js";

const LOSS = "Cross-entropy of the audio codes on the validation clips. Lower is better. Compare it only between epochs of one run: another dataset or another base model has another scale.";
// Measured with the embedded voice's encoder: docs/evaluation.md.
const SIMILARITY = "Cosine similarity between the speaker embeddings of the sample and of its reference recording; 1 means identical. With the embedded voice, two recordings of one person have 0.8 to 0.9, different people 0 to 0.3; another base model has another scale. Sentences differ by up to 0.2, so ignore small changes.";

// By the id of their element: [term, meaning, id of the next element].
const MEANINGS = {
  "about-meanings": [
    ["Device", "The device that computes the speech. A CPU takes longer than a GPU, and by default computes in int8 with XTTS-v2, so the same seed gives another take.", "why"],
    ["Provider", "The library that computes the speech, and its device. If the settings request another provider, that one follows in brackets."],
    ["Voice", "The voice of requests that name none.", "voice-why"],
    ["Requests", "How many texts are being spoken, how many can be spoken at once, and how many wait."],
  ],
  "epoch-figures": [["Audio loss", LOSS], ["Similarity", SIMILARITY]],
  "curve-figures": [
    ["Training", "The audio loss on the training clips, smoothed if there are many steps. It keeps falling even when the model no longer improves."],
    ["Validation", `The audio loss of the table. ${LOSS} If it rises while the training loss falls, the model overfits.`],
    ["Similarity", SIMILARITY],
    ["Step", "One update of the weights, after one batch of clips. An epoch is one pass over all clips."],
  ],
  "decoding-figures": [
    ["Speed", "1 is the natural speed of the voice, 2 is twice as fast."],
    ["Temperature", "Randomness of the sampling. Lower is more even; higher is livelier and fails more often. If empty, the model's own value."],
    ["Seed", "The same seed gives the same speech. If empty, 0. Another take adds 1."],
  ],
  "spoken-figures": [
    ["First sound after", "Time from the press to the first audio. It includes loading a voice that is not loaded yet."],
    ["Spoken in", "The length of the audio, and the time to generate it. If generating takes longer than the audio, playback pauses."],
    ["Playback paused", "How often the next audio was not ready in time."],
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
