// A spectrogram on a canvas, in shades from the background to one colour.
//
// The trained voice has the accent colour, the person's recording slate; equal levels are equally light.

import { placeOf, spectrogram } from "./fourier.js";

const FLOOR_DECIBELS = -88;
const CEILING_DECIBELS = -22;
const BANDS = 128;
const LOWEST = 50;
const HIGHEST = 11000;
const MARKS = { mel: [400, 1000, 2000, 4000, 8000], linear: [2000, 4000, 6000, 8000, 10000] };

/** Draws `samples` across `share` (0..1) of the canvas, in the colours of its style. */
export function paint(canvas, samples, rate, { scale = "mel", share = 1 } = {}) {
  const found = spectrogram(samples, rate, { count: BANDS, scale, lowest: LOWEST, highest: HIGHEST });
  const picture = coloured(found, ramp(canvas));
  const { width, height } = sized(canvas);
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, width, height);
  const sheet = document.createElement("canvas");
  sheet.width = found.frames;
  sheet.height = found.count;
  sheet.getContext("2d").putImageData(picture, 0, 0);
  pen.imageSmoothingQuality = "high";
  pen.drawImage(sheet, 0, 0, Math.max(1, Math.round(width * share)), height);
}

export function clear(canvas) {
  const { width, height } = sized(canvas);
  canvas.getContext("2d").clearRect(0, 0, width, height);
}

/** [{hertz, place}] for the labels of the axis; place 0 is the bottom. */
export function marks(scale) {
  return MARKS[scale].map((hertz) => ({ hertz, place: placeOf(hertz, scale, LOWEST, HIGHEST) }));
}

function sized(canvas) {
  const sharp = Math.min(window.devicePixelRatio || 1, 2);
  const width = Math.max(1, Math.round(canvas.clientWidth * sharp));
  const height = Math.max(1, Math.round(canvas.clientHeight * sharp));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  return { width, height };
}

function coloured({ decibels, frames, count }, colours) {
  const picture = new ImageData(frames, count);
  for (let frame = 0; frame < frames; frame += 1) {
    for (let band = 0; band < count; band += 1) {
      const level = (decibels[frame * count + band] - FLOOR_DECIBELS) / (CEILING_DECIBELS - FLOOR_DECIBELS);
      const colour = 3 * Math.round(255 * Math.min(1, Math.max(0, level)));
      const at = 4 * ((count - 1 - band) * frames + frame);
      picture.data[at] = colours[colour];
      picture.data[at + 1] = colours[colour + 1];
      picture.data[at + 2] = colours[colour + 2];
      picture.data[at + 3] = 255;
    }
  }
  return picture;
}

/** 256 colours interpolated between the three of this canvas's style. */
function ramp(canvas) {
  const style = getComputedStyle(canvas);
  const stops = ["--quiet", "--middle", "--loud"].map((name) => rgb(style.getPropertyValue(name)));
  const colours = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i += 1) {
    // Gamma: most of a spectrogram is quiet and should stay pale.
    const level = (i / 255) ** 1.5 * 2;
    const from = Math.min(1, Math.floor(level));
    for (let channel = 0; channel < 3; channel += 1) {
      const [a, b] = [stops[from][channel], stops[from + 1][channel]];
      colours[3 * i + channel] = a + (b - a) * (level - from);
    }
  }
  return colours;
}

function rgb(hex) {
  const value = Number.parseInt(hex.trim().slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}
