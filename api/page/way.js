// How far a candidate has come from the base to the person, as a picture.

import { find, isNew, make, say } from "./elements.js";
import { againstBase } from "./judges.js";
import { candidateName } from "./wording.js";

// [judge, what it is about, what the end of the way is, the figure at the end]
const WAYS = [
  ["voice", "Voice", "the person", 1],
  ["word_errors", "Words", "no word wrong", 0],
  ["words", "Words", "no word lost", 1],
  ["naturalness", "Naturalness", "fully natural", 5],
  ["pitch_drift_percent", "Pitch", "the person's pitch", 0],
];
// The base is so near the end that a share of the way says nothing.
const NEAR = 0.02;

/** "62 % of the way", "further away than the base", … Pure. */
function inWords(share, isMeasured) {
  if (share === null) return "the base is there already";
  if (!isMeasured) return "no measurable difference from the base";
  if (share < 0) return "further away than the base";
  return share > 0.99 ? "there" : `${Math.round(100 * share)} % of the way`;
}

/**
 * [{what, end, share, words}] for a candidate: share 0 is the base, 1 the end of the way, below 0 further away;
 * null if the base is there already. Word errors replace the other measure of words. Pure.
 */
export function waysOf(one, base, judges) {
  const mean = (of, judge) => of.judges[judge]?.mean;
  const measured = WAYS.filter(([judge]) => Number.isFinite(mean(one, judge)) && Number.isFinite(mean(base, judge)));
  const hasErrors = measured.some(([judge]) => judge === "word_errors");
  return measured.filter(([judge]) => judge !== "words" || !hasErrors).map(([judge, what, end, goal]) => {
    const far = Math.abs(mean(base, judge) - goal);
    const scale = goal || (judge === "word_errors" ? 1 : 100);
    const share = far < NEAR * scale ? null : 1 - Math.abs(mean(one, judge) - goal) / far;
    const isBase = one === base;
    return { what, end, share: isBase ? 0 : share, words: isBase ? "here it begins" : inWords(share, Boolean(againstBase(judges[judge].better, one.judges[judge]))) };
  });
}

/** Shows the way of a candidate; hidden if nothing was measured. */
export function showWay(one, base, judges) {
  const ways = one?.judged && base ? waysOf(one, base, judges) : [];
  find("way").hidden = ways.length === 0;
  say(find("way-title"), one ? `From the base to the person: ${candidateName(one)}` : "");
  if (!isNew(find("ways").dataset, "shown", ways)) return;
  find("ways").replaceChildren(...ways.map(({ what, end, share, words }) => {
    const dot = make("i", { class: "way-dot" });
    dot.style.left = `${100 * Math.min(1, Math.max(0, share ?? 1))}%`;
    return make("div", {}, make("dt", { text: what }),
      make("dd", {}, make("span", { class: "way-line", "aria-hidden": "true" }, dot), make("span", {}, make("span", { text: words }), make("span", { class: "quiet", text: ` · ${end}` }))));
  }));
}
