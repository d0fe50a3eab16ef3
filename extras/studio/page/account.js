// The result of a cut: the use of every second, the parts without a pause, and what to do about a failed cut.

import { figuresRow, find, make, say } from "../elements.js";
import { request } from "../server.js";
import { datasetPath } from "./paths.js";
import { clock, counted } from "../wording.js";

// A reason in account.csv of `train cut`.
const TOO_LONG = "too long without a pause";
const MAX_PARTS = 20;
const AGAIN = "then press Cut again.";
// Advice by the reason that cost a failed cut the most speech.
const BY_REASON = {
  [TOO_LONG]: `Record again with pauses of 0.12 s or more (0.5 s without a transcript) and without music, upload the new file, ${AGAIN}`,
  "unsure words": `Compare the transcript with the recording, and check the language of the dataset. Choose the corrected file, ${AGAIN}`,
  "shorter than a second": `Record whole sentences instead of single words, upload the new file, ${AGAIN}`,
  clipped: `Record again at a lower level, upload the new file, ${AGAIN}`,
};
// Advice by words in the message; the first match counts.
const BY_WORDS = [
  [/bytes.* free/, `Free space on the server's disk, ${AGAIN}`],
  [/exit code|killed|ended after/, "Press Cut again. If it fails again, read the log of the service."],
  [/cancel each other/, `Delete the recording, upload one of its channels, ${AGAIN}`],
  [/the text|\.(txt|srt|vtt|sbv|lab|textgrid|json|tsv)\b/i, BY_REASON["unsure words"]],
];
const NAME_IT = `Correct what the message names, ${AGAIN} The uploaded recordings and the transcript are kept.`;

/** What to do about a failed cut, by its message. Pure. */
export function adviceFor(message) {
  const reasons = [...message.matchAll(/([\d.]+) s (too long without a pause|unsure words|shorter than a second|clipped)/g)];
  const [worst] = reasons.sort((a, b) => b[1] - a[1]);
  // With this much clipping, the words are unsure because of the clipping.
  const reason = /speech is clipped/.test(message) ? "clipped" : worst?.[2];
  return BY_REASON[reason] ?? BY_WORDS.find(([pattern]) => pattern.test(message))?.[1] ?? NAME_IT;
}

/** The parts without a pause in account.csv, longest first: {recording, start, end, seconds}. Pure. */
export function partsWithoutPause(csv) {
  const cells = [...csv.matchAll(/"((?:[^"]|"")*)"(?:,|\n|$)/g)].map(([, cell]) => cell);
  const rows = Array.from({ length: Math.floor(cells.length / 6) }, (_, i) => cells.slice(6 * i, 6 * i + 6));
  return rows.filter((row) => row[4] === TOO_LONG)
    .map(([recording, ...times]) => ({ recording, start: Number(times[0]), end: Number(times[1]), seconds: Number(times[2]) }))
    .sort((a, b) => b.seconds - a.seconds);
}

/** found: a dataset, as /v1/datasets/{dataset} returns it. */
export async function showAccount(found) {
  find("account-works").hidden = !found.account.length;
  const sums = new Map();
  for (const one of found.account) {
    for (const [reason, seconds] of Object.entries(one.seconds_by_reason)) sums.set(reason, (sums.get(reason) ?? 0) + seconds);
  }
  const all = found.account.reduce((sum, one) => sum + one.seconds, 0);
  const rows = [...sums].sort((a, b) => b[1] - a[1])
    .map(([reason, seconds]) => figuresRow(reason, clock(seconds, 0), `${((100 * seconds) / all).toFixed(1)} %`));
  find("account").replaceChildren(...rows);
  const { clips } = found;
  const parts = [counted(clips.total, "clip"), `${clips.dropped} dropped`, `${clips.without_text} without a transcript`, `${clips.corrected} corrected`];
  say(find("account-info"), `${clock(all, 0)} recorded; ${parts.join(", ")}. Speech detection: ${found.speech_by || "none"}.`);
  disclose("unheard", found.num_unheard, `${counted(found.num_unheard, "sentence")} of the transcript not found in the recordings`, found.unheard);
  disclose("unplaced", found.unplaced.length, `${counted(found.unplaced.length, "correction")} without a clip in this cut`,
    found.unplaced.map((one) => `${one.name}: ${one.dropped ? "dropped" : one.text} (was: ${one.was || "empty"})`));
  await showPartsWithoutPause(found, sums.has(TOO_LONG));
}

async function showPartsWithoutPause({ id, cut }, any) {
  const list = find("pauseless");
  const key = JSON.stringify([id, cut.ended, any]);
  if (list.dataset.shown === key) return;
  const parts = any ? partsWithoutPause(await (await request(`${datasetPath(id)}/account.csv`)).text()) : [];
  list.dataset.shown = key;
  const lines = parts.slice(0, MAX_PARTS).map((one) => `${one.recording}: ${clock(one.start)} to ${clock(one.end)}, ${one.seconds.toFixed(1)} s`);
  if (parts.length > MAX_PARTS) lines.push(`and ${parts.length - MAX_PARTS} shorter ones, in the CSV file`);
  disclose("pauseless", parts.length, `${counted(parts.length, "part")} left out: too long without a pause`, lines);
}

/** Fills a collapsible list; hides it if it is empty. */
function disclose(id, count, summary, lines) {
  const place = find(id);
  place.hidden = !count;
  say(place.querySelector("summary"), summary);
  place.querySelector("ul").replaceChildren(...lines.map((text) => make("li", { text })));
}
