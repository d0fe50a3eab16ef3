// The spectrogram of samples: FFT, mel bands, decibels. Pure, without canvas or browser.

// Separates the harmonics of a low voice at 24 kHz (23 Hz per bin), with a frame every 10.7 ms.
export const WINDOW = 1024;
export const HOP = 256;

/** FFT in place, iterative, radix 2 (Cooley and Tukey 1965); the length is a power of two. */
export function fft(real, imaginary) {
  const n = real.length;
  for (let i = 1, j = 0; i < n; i += 1) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [real[i], real[j]] = [real[j], real[i]];
      [imaginary[i], imaginary[j]] = [imaginary[j], imaginary[i]];
    }
  }
  const [cosines, sines] = twiddles(n);
  for (let size = 2; size <= n; size *= 2) {
    const half = size / 2;
    const stride = n / size;
    for (let start = 0; start < n; start += size) {
      for (let k = 0; k < half; k += 1) {
        const c = cosines[k * stride];
        const s = sines[k * stride];
        const low = start + k;
        const high = low + half;
        const re = real[high] * c - imaginary[high] * s;
        const im = real[high] * s + imaginary[high] * c;
        real[high] = real[low] - re;
        imaginary[high] = imaginary[low] - im;
        real[low] += re;
        imaginary[low] += im;
      }
    }
  }
}

const kept = new Map();

function twiddles(n) {
  if (!kept.has(n)) {
    const angle = (k) => (-2 * Math.PI * k) / n;
    const half = n / 2;
    kept.set(n, [
      Float64Array.from({ length: half }, (_, k) => Math.cos(angle(k))),
      Float64Array.from({ length: half }, (_, k) => Math.sin(angle(k))),
    ]);
  }
  return kept.get(n);
}

/** Slaney's mel scale: linear below 1 kHz, logarithmic above. */
export function toMel(hertz) {
  return hertz < 1000 ? (3 * hertz) / 200 : 15 + (27 * Math.log(hertz / 1000)) / Math.log(6.4);
}

export function toHertz(mel) {
  return mel < 15 ? (200 * mel) / 3 : 1000 * Math.exp(((mel - 15) * Math.log(6.4)) / 27);
}

/** The position of a frequency on a scale: 0 at `lowest`, 1 at `highest`. */
export function placeOf(hertz, scale, lowest, highest) {
  const at = scale === "mel" ? toMel : (value) => value;
  return (at(hertz) - at(lowest)) / (at(highest) - at(lowest));
}

/** Triangles over the FFT's bins; each {first, weights}, its weights summing to 1. */
export function bands(count, scale, rate, lowest, highest) {
  const [forth, back] = scale === "mel" ? [toMel, toHertz] : [(v) => v, (v) => v];
  const step = (forth(highest) - forth(lowest)) / (count + 1);
  const edge = (index) => back(forth(lowest) + index * step);
  const perBin = rate / WINDOW;
  return Array.from({ length: count }, (_, index) => {
    const [left, middle, right] = [edge(index), edge(index + 1), edge(index + 2)];
    // A band narrower than a bin would be empty, so it takes the nearest bin.
    const first = Math.min(Math.round(middle / perBin), Math.ceil(left / perBin));
    const last = Math.max(Math.round(middle / perBin), Math.floor(right / perBin));
    const weights = [];
    for (let bin = first; bin <= last; bin += 1) {
      const hertz = bin * perBin;
      const up = (hertz - left) / (middle - left);
      const down = (right - hertz) / (right - middle);
      weights.push(Math.max(0, Math.min(up, down)));
    }
    const sum = weights.reduce((total, weight) => total + weight, 0);
    return { first, weights: sum > 0 ? weights.map((w) => w / sum) : weights.map(() => 1 / weights.length) };
  });
}

/**
 * Levels in dB of a full-scale sine, [frames][count] in one array, lowest band first.
 * samples: Float32Array in [-1, 1]; scale: "mel" or "linear".
 */
export function spectrogram(samples, rate, { count = 128, scale = "mel", lowest = 50, highest = rate / 2 } = {}) {
  const frames = Math.max(1, Math.ceil(samples.length / HOP));
  const found = new Float32Array(frames * count);
  const filters = bands(count, scale, rate, lowest, Math.min(highest, rate / 2));
  const real = new Float64Array(WINDOW);
  const imaginary = new Float64Array(WINDOW);
  const power = new Float64Array(WINDOW / 2 + 1);
  for (let frame = 0; frame < frames; frame += 1) {
    const start = frame * HOP - WINDOW / 2;
    for (let i = 0; i < WINDOW; i += 1) {
      real[i] = (samples[start + i] ?? 0) * HANN[i];
    }
    imaginary.fill(0);
    fft(real, imaginary);
    for (let bin = 0; bin < power.length; bin += 1) {
      power[bin] = real[bin] ** 2 + imaginary[bin] ** 2;
    }
    filters.forEach(({ first, weights }, band) => {
      let sum = 0;
      for (let i = 0; i < weights.length; i += 1) sum += weights[i] * (power[first + i] ?? 0);
      found[frame * count + band] = 10 * Math.log10(sum / FULL_SCALE + 1e-12);
    });
  }
  return { decibels: found, frames, count };
}

const HANN = Float64Array.from({ length: WINDOW }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / WINDOW));
// The power of a sine of amplitude 1 at a bin's centre: the square of half the window's sum.
const FULL_SCALE = (HANN.reduce((sum, value) => sum + value, 0) / 2) ** 2;
