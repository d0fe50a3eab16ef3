// The page's arithmetic against sums by hand (test_scripts.py).

import assert from "node:assert/strict";
import { test } from "node:test";

import { parsed } from "./events.js";
import { bands, fft, placeOf, spectrogram, toHertz, toMel } from "./fourier.js";
import { joined, linear, rangeOf, smoothed, thinned, ticks } from "./scales.js";
import { fromPcm, loudness, matchingGains, pcmOf, wavOf } from "./sound.js";
import { clock, figure, fileName, spokenTime } from "./wording.js";

const near = (found, wanted, by = 1e-6) =>
  [found].flat().forEach((one, i) => assert.ok(Math.abs(one - [wanted].flat()[i]) <= by, `${found} is not ${wanted}`));
const range = (count, of) => Array.from({ length: count }, (_, i) => of(i));

test("the FFT is the sum that defines it", () => {
  for (const length of [2, 8, 64, 256]) {
    const [real, imaginary] = [7, 11].map((step) => Float64Array.from(range(length, (i) => ((i * i * step) % 13) - 6)));
    const wanted = range(length, (k) => real.reduce(([re, im], x, n) => {
      const [cos, sin] = [Math.cos, Math.sin].map((of) => of((2 * Math.PI * k * n) / length));
      return [re + x * cos + imaginary[n] * sin, im + imaginary[n] * cos - x * sin];
    }, [0, 0]));
    fft(real, imaginary);
    near([...real, ...imaginary], [...wanted.map((w) => w[0]), ...wanted.map((w) => w[1])], 1e-8);
  }
});

test("Slaney's mel scale, both directions; the weights of all bands sum to one", () => {
  near([0, 200, 1000, 6400].map(toMel), [0, 3, 15, 42]);
  near([60, 999, 5000].map((hertz) => toHertz(toMel(hertz))), [60, 999, 5000]);
  for (const scale of ["mel", "linear"]) {
    near(bands(128, scale, 24000, 50, 11000).map((band) => band.weights.reduce((a, w) => a + w)), Array(128).fill(1));
  }
});

test("a tone stands at its frequency, and a full one near 0 decibels", () => {
  for (const [scale, hertz] of ["mel", "linear"].flatMap((one) => [300, 1500, 5000].map((at) => [one, at]))) {
    const tone = Float32Array.from(range(12000, (i) => Math.sin((2 * Math.PI * hertz * i) / 24000)));
    const { decibels, count } = spectrogram(tone, 24000, { scale, lowest: 50, highest: 11000 });
    const frame = Array.from(decibels.slice(20 * count, 21 * count));
    const best = frame.indexOf(Math.max(...frame));
    near(best / (count - 1), placeOf(hertz, scale, 50, 11000), 0.015);
    assert.ok(frame[best] > -8 && frame[best] < 1);
  }
});

test("ticks are round and inside; a range is never empty and ignores what is not finite", () => {
  near(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  near(ticks(0.61, 0.89, 5), [0.65, 0.7, 0.75, 0.8, 0.85]);
  assert.deepEqual(ticks(3, 3, 5), [3]);
  assert.deepEqual(rangeOf([]), [0, 1]);
  near(rangeOf([NaN, 2, Infinity, 4], 0.1), [1.8, 4.2]);
  assert.deepEqual(rangeOf([5]).map((edge) => Math.sign(edge - 5)), [-1, 1]);
  near([1, 2, 3].map(linear(1, 3, 100, 0)), [100, 50, 0]);
  near(linear(2, 2, 0, 10)(2), 5);
});

test("smoothing starts without bias, and thinning keeps the mean", () => {
  near(smoothed(range(5, (x) => ({ x, y: 4 }))).map((point) => point.y), Array(5).fill(4));
  const mean = (points) => points.reduce((sum, { y }) => sum + y, 0) / points.length;
  const points = range(5000, (x) => ({ x, y: x % 7 }));
  assert.equal(thinned(points, 400).length, 400);
  near(mean(thinned(points, 400)), mean(points), 0.03);
});

test("steps that were told twice stand once", () => {
  const row = (step, kind = "train", of = "old") => ({ step, kind, of });
  const found = joined([row(1), row(2), row(2, "validation"), row(3)], [row(2, "train", "new"), row(3, "train", "new")]);
  assert.deepEqual(found.filter((one) => one.kind === "train").map((one) => [one.step, one.of]), [[1, "old"], [2, "new"], [3, "new"]]);
  // The validation row of step 2 follows its training row: it is not a repetition.
  assert.equal(joined([row(1), row(2)], [row(2, "validation", "new")]).length, 3);
});

test("loudness leaves out the pauses, and matching only reduces levels", () => {
  const tone = range(24000, (i) => 0.5 * Math.sin(i / 5));
  for (const sound of [tone, [...tone, ...Array(48000).fill(0)]]) near(loudness(Float32Array.from(sound)), 0.5 / Math.SQRT2, 0.004);
  assert.equal(loudness(new Float32Array(100)), 0);
  near(matchingGains([0.1, 0.4, 0]), [1, 0.25, 1]);
});

test("PCM becomes a WAV and comes out of one again", async () => {
  near(Array.from(fromPcm(Uint8Array.from([0, 0, 255, 127, 0, 128]))), [0, 32767 / 32768, -1]);
  const pcm = Uint8Array.from(range(2400, (i) => (i * 37) % 256));
  const head = Buffer.alloc(44);
  [["RIFF", 0], ["WAVEfmt ", 8], ["data", 36]].forEach(([name, at]) => head.write(name, at, "latin1"));
  [[36 + 2400, 4], [16, 16], [24000, 24], [48000, 28], [2400, 40]].forEach(([value, at]) => head.writeUInt32LE(value, at));
  [[1, 20], [1, 22], [2, 32], [16, 34]].forEach(([value, at]) => head.writeUInt16LE(value, at));
  const file = Uint8Array.from([...head, ...pcm]);
  assert.deepEqual(new Uint8Array(await wavOf([pcm]).arrayBuffer()), file);
  // Some writers put a chunk before the samples.
  const odd = Uint8Array.from([...file.slice(0, 36), ...Buffer.from("LIST\x03\x00\x00\x00abc\x00"), ...file.slice(36)]);
  for (const wav of [file, odd]) assert.deepEqual(Uint8Array.from(pcmOf(wav)), pcm);
  // With the mark of synthetic speech: a comment that ends with a zero, at an even place.
  for (const [mark, room] of [["Anna", "Anna\0\0"], ["Ann", "Ann\0"]]) {
    const size = (value) => Buffer.from(Uint32Array.of(value).buffer).toString("latin1");
    const list = `LIST${size(12 + room.length)}INFOICMT${size(mark.length + 1)}${room}`;
    const wanted = Uint8Array.from([...file.slice(0, 36), ...Buffer.from(list, "latin1"), ...file.slice(36)]);
    new DataView(wanted.buffer).setUint32(4, wanted.length - 8, true);
    assert.deepEqual(new Uint8Array(await wavOf([pcm], mark).arrayBuffer()), wanted);
  }
});

test("what is no number is a dash, a file name contains no path, an event without data is one", () => {
  assert.deepEqual([undefined, Infinity].map((seconds) => clock(seconds)), ["–", "–"]);
  assert.deepEqual([null, undefined, NaN].map((one) => figure(one)), ["–", "–", "–"]);
  assert.equal(spokenTime(64.2), "1 minute 4 seconds");
  assert.equal(fileName("a/../b", "c d.wav"), "a-..-b_c-d.wav");
  assert.deepEqual([parsed("event:x\ndata"), parsed("retry: 2000")], [{ event: "x", data: "" }, null]);
});
