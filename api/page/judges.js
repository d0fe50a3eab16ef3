// The meaning of the judges' figures, and the order of candidates by them. Pure.

import { capital, figure } from "./wording.js";

// The judges that this page knows, in the order of their columns.
export const NAMES = {
  words: "Words",
  word_errors: "Word errors",
  voice: "Voice",
  naturalness: "Naturalness",
  rate_drift_percent: "Rate",
  pitch_drift_percent: "Pitch",
  pitch_spread_percent: "Spread",
};

const BETTER = {
  higher: "higher is better",
  lower: "lower is better",
  zero: "nearer to 0 is better",
};

export const FAILED = "Sentences that reached the length limit (unfinished), ended too early (cut) or ran too long (babbling). The means leave them out.";
export const LOSS = "Cross-entropy of the audio codes on the validation clips; lower is better. Blends have none.";
export const INTERVAL = "Means over the finished sentences; ± is half of the 95 % confidence interval. ▲ and ▼ mark a measurable difference from the base, better or worse. ≠ marks a difference that is neither better nor worse. For rate, pitch and spread, further from 0 is worse.";

/** The judges with figures, in the order of their columns. */
export function present(evaluation) {
  return known(evaluation).filter((name) => !evaluation.judges[name].absent);
}

/** The judges without figures. */
export function absent(evaluation) {
  return known(evaluation).filter((name) => evaluation.judges[name].absent);
}

/** The judges that this page knows, then those that extras add. */
function known({ judges }) {
  return [...Object.keys(NAMES), ...Object.keys(judges).filter((name) => judges[name].further)].filter((name) => judges[name]);
}

/** The heading of a judge's column. */
export function nameOf(name) {
  return NAMES[name] ?? capital(name);
}

/** A candidate's figure by a judge. */
export function figureOf(one, name) {
  return one.judges[name] ?? one.further?.[name];
}

/** The meaning of a judge's figure. */
export function meaning(evaluation, name) {
  const { unit, better, meaning: what } = evaluation.judges[name];
  const least = evaluation.smallest_difference[name];
  const smallest = Number.isFinite(least) ? ` The smallest measurable difference is ${digits(least)}.` : "";
  return `${capital(what.replace(/\.$/, ""))} (${[unit, BETTER[better]].filter(Boolean).join("; ")}).${smallest}`;
}

/** A short figure: 0.82, -4.2 %. */
export function short(name, value) {
  if (!Number.isFinite(value)) return "–";
  return name.endsWith("_percent") ? `${value > 0 ? "+" : ""}${value.toFixed(1)} %` : digits(value);
}

export function halfInterval(name, found) {
  const half = (found?.high - found?.low) / 2;
  if (!Number.isFinite(half)) return "";
  return `±${name.endsWith("_percent") ? half.toFixed(1) : digits(half)}`;
}

function digits(value) {
  return figure(value, Math.abs(value) < 10 ? 2 : 1);
}

/** {mark, words} for a figure's difference from the base; null for the base, or if it is not measurable. */
export function againstBase(better, found) {
  const by = found?.against_base;
  if (!by || !Number.isFinite(by.low) || (by.low <= 0 && by.high >= 0)) return null;
  const good = better === "zero" ? nearerToZero(found) : (by.mean > 0) === (better === "higher");
  if (good === null) return { mark: "≠", words: "different from the base" };
  return good ? { mark: "▲", words: "better than the base" } : { mark: "▼", words: "worse than the base" };
}

/** true if the whole interval is nearer to 0 than the base, false if it is further away, else null. */
function nearerToZero({ mean, against_base: by }) {
  const base = mean - by.mean;
  const [low, high] = [base + by.low, base + by.high];
  if (Math.max(Math.abs(low), Math.abs(high)) < Math.abs(base)) return true;
  return low * high > 0 && Math.min(Math.abs(low), Math.abs(high)) > Math.abs(base) ? false : null;
}

/** How many sentences failed, and how: "0", "2 unfinished, 1 cut". */
export function failures(one) {
  const counts = ["unfinished", "cut", "babbling"].filter((kind) => one[kind] > 0).map((kind) => `${one[kind]} ${kind}`);
  return counts.length ? counts.join(", ") : "0";
}

/** The value that a column is sorted by; null goes to the end. */
export function value(one, column) {
  if (column === "epoch") return one.epoch + (one.kind === "blend" ? one.share / 10 : 0.5);
  if (!one.judged && column !== "loss") return null;
  if (column === "failed") return one.unfinished + one.cut + one.babbling;
  const found = column === "loss" ? one.validation_loss : figureOf(one, column)?.mean;
  return Number.isFinite(found) ? found : null;
}

/** Whether the best value of a column is the lowest, or the nearest to 0. */
export function lowestFirst(evaluation, column) {
  if (column === "epoch") return false;
  return evaluation.judges[column]?.better !== "higher";
}

/** The rows sorted by a column; the sort is stable. */
export function ordered(rows, evaluation, { column, ascending }) {
  const zero = evaluation.judges[column]?.better === "zero";
  const of = (one) => {
    const found = value(one, column);
    return found !== null && zero ? Math.abs(found) : found;
  };
  return [...rows].sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return ascending ? x - y : y - x;
  });
}

/** Every figure of a candidate as a sentence. */
export function facts(one, evaluation) {
  if (!one.judged) return ["Not evaluated yet."];
  const lines = [];
  if (one.is_best && evaluation.verdict) lines.push(evaluation.verdict.reason);
  if (one.ruled_out) lines.push(`Cannot be the best: ${one.ruled_out}`);
  if (one.kind !== "base" && one.indistinguishable_from_base) lines.push("No measurable difference from the base.");
  lines.push(...one.remarks.filter((remark) => remark !== one.ruled_out));
  const failed = failures(one);
  lines.push(failed === "0" ? "Every sentence finished." : `Of ${evaluation.sentences} sentences: ${failed}.`);
  for (const name of present(evaluation)) {
    const found = figureOf(one, name);
    if (found) lines.push(fact(name, found, evaluation.judges[name]));
  }
  if (Number.isFinite(one.validation_loss)) lines.push(`Audio loss ${figure(one.validation_loss)}.`);
  return lines;
}

function fact(name, found, judge) {
  const between = `${short(name, found.low)} to ${short(name, found.high)}`;
  const by = found.against_base;
  const against = by ? ` Against the base ${by.mean > 0 && !name.endsWith("_percent") ? "+" : ""}${short(name, by.mean)} (${short(name, by.low)} to ${short(name, by.high)}): ${againstBase(judge.better, found)?.words ?? "no measurable difference"}.` : "";
  return `${nameOf(name)} ${short(name, found.mean)} (${between}).${against}${found.note ? ` ${found.note}` : ""}`;
}
