// The curves of a run, audio loss over steps and similarity over epochs, and their table.

import { cardRow, find, make, say, svg } from "./elements.js";
import { linear, nearest, path, rangeOf, smoothed, thinned, ticks } from "./scales.js";
import { figure, tick } from "./wording.js";

const HEIGHT = 220;
const EDGE = { left: 44, right: 14, top: 12, bottom: 30 };
const MIN_FOR_SMOOTHING = 60;

export class Curves {
  #lines = {};

  constructor() {
    this.charts = {
      loss: new Chart(find("loss-chart"), "step", 3),
      similarity: new Chart(find("similarity-chart"), "epoch", 2),
    };
    find("numbers").addEventListener("toggle", () => this.#tabulate());
    new ResizeObserver(() => this.draw()).observe(find("charts"));
  }

  /** records: the rows of metrics.jsonl; epochs: of /v1/runs; selected: the epoch on the desk. */
  show(records, epochs, selected) {
    this.epochs = [...epochs].sort((a, b) => a.epoch - b.epoch);
    const steps = (kind) => records
      .filter((row) => row.kind === kind && Number.isFinite(row.audio_loss))
      .map((row) => ({ x: row.step, y: row.audio_loss }));
    const learned = steps("train");
    this.learned = meansOf(records);
    const validated = steps("validation");
    const step = this.epochs.find((one) => one.epoch === selected)?.step;
    const heard = this.epochs
      .filter((one) => Number.isFinite(one.sample?.similarity))
      .map((one) => ({ x: one.epoch, y: one.sample.similarity }));
    this.#lines = {
      loss: { at: step, lines: [
        { name: "training", class: "faint", points: thinned(calm(learned)) },
        { name: "validation", class: "strong", points: validated, dots: true },
      ] },
      similarity: { at: selected, lines: [{ name: "similarity", class: "strong", points: heard, dots: true }] },
    };
    const any = learned.length + validated.length + heard.length > 0;
    for (const id of ["charts", "numbers", "curve-figures"]) find(id).hidden = !any;
    find("curves-empty").hidden = any;
    this.draw();
    this.#tabulate();
  }

  draw() {
    if (find("charts").hidden) return;
    for (const [name, chart] of Object.entries(this.charts)) chart.draw(this.#lines[name]);
  }

  #tabulate() {
    if (!find("numbers").open) return;
    find("numbers").querySelector("tbody").replaceChildren(...this.epochs.map((one) => cardRow(
      `Epoch ${one.epoch}`, ["Step", one.step ?? "–"], ["Training loss", figure(this.learned.get(one.epoch))],
      ["Validation loss", figure(one.validation_loss)], ["Similarity", figure(one.sample?.similarity)])));
  }
}

/** The mean training loss of each epoch. */
function meansOf(records) {
  const sums = new Map();
  for (const { kind, epoch, audio_loss: loss } of records) {
    if (kind !== "train" || !Number.isFinite(loss)) continue;
    const [sum, count] = sums.get(epoch) ?? [0, 0];
    sums.set(epoch, [sum + loss, count + 1]);
  }
  return new Map([...sums].map(([epoch, [sum, count]]) => [epoch, sum / count]));
}

// The loss varies between batches, so it is smoothed over many steps.
function calm(points) {
  return points.length < MIN_FOR_SMOOTHING ? points : smoothed(points);
}

class Chart {
  constructor(box, unit, digits) {
    Object.assign(this, { box, unit, digits });
    this.readout = make("p", { class: "readout", "aria-hidden": "true" });
    box.addEventListener("pointermove", (event) => this.#read(event));
    box.addEventListener("pointerleave", () => this.#forget());
  }

  draw({ lines, at }) {
    const all = lines.flatMap((line) => line.points);
    const width = Math.max(240, this.box.clientWidth);
    if (!all.length) return this.box.replaceChildren(make("p", { class: "empty", text: "No data yet." }));
    const [left, right] = spread(all.map((point) => point.x));
    const [low, high] = rangeOf(all.map((point) => point.y));
    this.x = linear(left, right, EDGE.left, width - EDGE.right);
    this.y = linear(low, high, HEIGHT - EDGE.bottom, EDGE.top);
    this.back = linear(EDGE.left, width - EDGE.right, left, right);
    this.lines = lines.filter((line) => line.points.length);
    this.cross = svg("line", { class: "cross", y1: EDGE.top, y2: HEIGHT - EDGE.bottom, visibility: "hidden" });
    const picture = svg("svg", {
      viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": this.#summary(),
    }, ...this.#grid(low, high, left, right, width), this.#marker(at, left, right),
    ...this.lines.flatMap((line) => this.#line(line)), this.cross);
    const names = this.lines.length > 1 ? this.#legend() : null;
    this.box.replaceChildren(...[picture, names, this.readout].filter(Boolean));
    return undefined;
  }

  #grid(low, high, left, right, width) {
    const whole = (value) => Number.isInteger(value);
    const across = ticks(low, high, 4).map((value) => svg("g", {},
      svg("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: this.y(value), y2: this.y(value) }),
      svg("text", { x: EDGE.left - 8, y: this.y(value) + 4, "text-anchor": "end", text: tick(value) })));
    const along = ticks(left, right, width / 90).filter(whole).map((value) => svg("text", {
      x: this.x(value), y: HEIGHT - 10, "text-anchor": "middle", text: tick(value),
    }));
    const unit = svg("text", { x: EDGE.left - 8, y: HEIGHT - 10, "text-anchor": "end", text: this.unit });
    return [...across, ...along, unit];
  }

  #marker(at, left, right) {
    if (!(at >= left && at <= right)) return null;
    return svg("line", { class: "marker", x1: this.x(at), x2: this.x(at), y1: EDGE.top, y2: HEIGHT - EDGE.bottom });
  }

  #line({ points, dots, class: name }) {
    const line = svg("path", { class: `line ${name}`, d: path(points, this.x, this.y) });
    if (!dots || points.length > 60) return [line];
    return [line, ...points.map((p) => svg("circle", { class: `dot ${name}`, cx: this.x(p.x), cy: this.y(p.y), r: 3 }))];
  }

  #legend() {
    return make("p", { class: "legend", "aria-hidden": "true" }, ...this.lines.map((line) =>
      make("span", {}, make("i", { class: `key ${line.class}` }), line.name)));
  }

  /** The text of the chart for a screen reader. */
  #summary() {
    return this.lines.map(({ name, points }) => {
      const [first, last] = [points[0], points[points.length - 1]];
      const place = (point) => `${point.y.toFixed(this.digits)} at ${this.unit} ${Math.round(point.x)}`;
      return points.length > 1 ? `${name}: from ${place(first)} to ${place(last)}` : `${name}: ${place(first)}`;
    }).join("; ");
  }

  #read(event) {
    if (!this.back) return;
    const x = this.back(event.clientX - this.box.getBoundingClientRect().left);
    const found = this.lines.map((line) => [line.name, nearest(line.points, x)]);
    const at = found.map(([, point]) => point).reduce((a, b) => (Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a));
    for (const end of ["x1", "x2"]) this.cross.setAttribute(end, this.x(at.x));
    this.cross.setAttribute("visibility", "visible");
    say(this.readout, `${this.unit} ${Math.round(at.x)}: ${found.map(([name, p]) => `${name} ${p.y.toFixed(this.digits)}`).join(", ")}`);
  }

  #forget() {
    this.cross?.setAttribute("visibility", "hidden");
    say(this.readout, "");
  }
}

/** The range from first to last; a single value gets room on both sides. */
function spread(values) {
  const [low, high] = rangeOf(values, 0);
  return low === high ? [low - 1, high + 1] : [low, high];
}
