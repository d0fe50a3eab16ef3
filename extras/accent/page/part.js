// The vowel chart of the chosen candidate: where base, candidate and person say each vowel.

import { cardRow, find, isNew, redraws, say, svg } from "../elements.js";
import { halfInterval, short } from "../judges.js";
import { linear, rangeOf } from "../scales.js";
import { candidateName } from "../wording.js";

const VOICES = ["base", "candidate", "person"];
const EDGE = 28;
const LETTER = 8;
const LINE = 16;
const DOT = 6;

/** "48 % back, 41 % open" for a place [x, y] in the mouth. Pure. */
export function placeInWords([x, y]) {
  const percent = (value) => `${Math.round(100 * Math.min(1, Math.max(0, value)))} %`;
  return `${percent(x)} back, ${percent(y)} open`;
}

/** "Epoch 2 is at 0.42 ±0.12: 0 is the base, 1 the person." Pure. */
export function summaryOf(name, figure) {
  return `${name[0].toUpperCase()}${name.slice(1)} is at ${short("accent", figure.mean)} ${halfInterval("accent", figure)}: 0 is the base, 1 the person.`;
}

/**
 * Where to write the words [{word, x, y}] beside their dots, each [x, y] of its middle, without covering the
 * `dots` [[x, y]], the frame or another word where that is possible. Pure.
 */
export function wordPlaces(words, dots, width, height) {
  const taken = dots.map(([x, y]) => [x - DOT, y - DOT, x + DOT, y + DOT]);
  return words.map(({ word, x, y }) => {
    const half = (word.length * LETTER) / 2;
    const places = [1, 2, 3].flatMap((far) => [[half + 10, 0], [-half - 10, 0], [0, -LINE], [0, LINE], [half, -LINE], [-half, LINE], [half, LINE], [-half, -LINE]]
      .map(([right, down]) => [x + far * right, y + far * down]));
    const box = ([left, top]) => [left - half, top - LINE / 2, left + half, top + LINE / 2];
    const inside = ([left, top, right, bottom]) => left >= EDGE && top >= EDGE && right <= width - EDGE && bottom <= height - EDGE;
    const free = (one) => inside(one) && !taken.some((other) => overlap(one, other));
    const place = places.find((one) => free(box(one))) ?? places.find((one) => inside(box(one))) ?? [x, y];
    taken.push(box(place));
    return place;
  });
}

function overlap(a, b) {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}

export class Part {
  events = [];
  #one = null;

  constructor() {
    redraws(find("accent-chart"), () => this.#draw());
  }

  soon() {}

  /** Shows the chart of a candidate; hidden if it has none. */
  chosen(one) {
    const figure = one?.further?.accent;
    find("accent").hidden = !figure?.details.vowels.length;
    this.#one = find("accent").hidden ? null : one;
    if (!this.#one || !isNew(find("accent").dataset, "shown", [one.id, figure])) return;
    const name = candidateName(one);
    say(find("accent-info"), summaryOf(name, figure));
    say(find("accent-name"), name);
    say(find("accent-note"), figure.note);
    find("accent-note").hidden = !figure.note;
    find("accent-rows").replaceChildren(...figure.details.vowels.map((vowel) => cardRow(vowel.word,
      ["Base", placeInWords(vowel.base)], ["Chosen", placeInWords(vowel.candidate)], ["Person", placeInWords(vowel.person)],
      ["Said in", vowel.said.join(", ")])));
    this.#draw();
  }

  #draw() {
    if (!this.#one) return;
    const { vowels } = this.#one.further.accent.details;
    const width = Math.max(240, find("accent-chart").clientWidth);
    const height = Math.min(460, Math.max(300, width * 0.6));
    const places = vowels.flatMap((vowel) => VOICES.map((voice) => vowel[voice]));
    const x = linear(...rangeOf(places.map(([back]) => back), 0.12), EDGE, width - EDGE);
    const y = linear(...rangeOf(places.map(([, open]) => open), 0.12), EDGE, height - EDGE);
    const at = ([back, open]) => [x(back), y(open)];
    const words = vowels.map(({ word, person }) => ({ word, x: x(person[0]), y: y(person[1]) }));
    const written = wordPlaces(words, places.map(at), width, height);
    const label = `${find("accent-info").textContent} ${vowels.map(({ word }) => word).join(", ")}: figures in the table below.`;
    find("accent-chart").replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
      svg("rect", { class: "frame", x: EDGE, y: EDGE, width: width - 2 * EDGE, height: height - 2 * EDGE }),
      ...axes(width, height), ...vowels.flatMap((vowel) => dotsOf(vowel, at)),
      ...words.map(({ word }, i) => svg("text", { class: "vowel", x: written[i][0], y: written[i][1] + 5, "text-anchor": "middle", text: word }))));
  }
}

function axes(width, height) {
  const text = (x, y, anchor, said, turn = null) => svg("text", { x, y, "text-anchor": anchor, text: said, transform: turn && `rotate(-90 ${x} ${y})` });
  return [
    text(EDGE, height - 10, "start", "tongue in front"), text(width - EDGE, height - 10, "end", "at the back"),
    text(18, EDGE, "end", "mouth closed", true), text(18, height - EDGE, "start", "open", true),
  ];
}

/** The way of a vowel from the base to the person, and the three voices on it. */
function dotsOf(vowel, at) {
  const [base, candidate, person] = VOICES.map((voice) => at(vowel[voice]));
  return [
    svg("line", { class: "way", x1: base[0], y1: base[1], x2: person[0], y2: person[1] }),
    svg("circle", { class: "base", cx: base[0], cy: base[1], r: 4 }),
    svg("rect", { class: "person", x: person[0] - 4, y: person[1] - 4, width: 8, height: 8 }),
    svg("circle", { class: "candidate", cx: candidate[0], cy: candidate[1], r: 4 }),
  ];
}
