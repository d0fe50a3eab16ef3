// Numbers as positions in a chart: ticks, paths, smoothing. Pure.

/** Round numbers that cover [low, high], about `wanted` of them. */
export function ticks(low, high, wanted = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.75);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** A function from [low, high] to [start, end]; a range of one value maps to the middle. */
export function linear(low, high, start, end) {
  if (high === low) return () => (start + end) / 2;
  return (value) => start + ((value - low) / (high - low)) * (end - start);
}

/** The range of `values` with a little room; never empty. */
export function rangeOf(values, room = 0.06) {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return [0, 1];
  const low = finite.reduce((a, b) => Math.min(a, b));
  const high = finite.reduce((a, b) => Math.max(a, b));
  const more = (high - low || Math.abs(high) || 1) * room;
  return [low - more, high + more];
}

/** At most `most` points: the means of equally many neighbours. points: [{x, y}]. */
export function thinned(points, most = 400) {
  if (points.length <= most) return points;
  const each = points.length / most;
  return Array.from({ length: most }, (_, i) => {
    const run = points.slice(Math.floor(i * each), Math.floor((i + 1) * each));
    const mean = (name) => run.reduce((sum, point) => sum + point[name], 0) / run.length;
    return { x: mean("x"), y: mean("y") };
  });
}

/** A moving average with bias correction at its start (Kingma and Ba 2015, section 3). */
export function smoothed(points, keep = 0.9) {
  let sum = 0;
  let weight = 0;
  return points.map(({ x, y }) => {
    sum = keep * sum + (1 - keep) * y;
    weight = keep * weight + (1 - keep);
    return { x, y: sum / weight };
  });
}

/** The `d` of an SVG path through the points. */
export function path(points, x, y) {
  return points.map((p, i) => `${i ? "L" : "M"}${x(p.x).toFixed(1)} ${y(p.y).toFixed(1)}`).join("");
}

/** Appends newer rows of metrics.jsonl; a run that resumed from an earlier step replaces its rows. */
export function joined(rows, fresh) {
  if (!fresh.length) return rows;
  const { step, kind } = fresh[0];
  return [...rows.filter((row) => row.step < step || (row.step === step && row.kind !== kind)), ...fresh];
}

/** The point nearest to x; null without points. */
export function nearest(points, x) {
  return points.reduce((best, p) => (best && Math.abs(best.x - x) <= Math.abs(p.x - x) ? best : p), null);
}
