// Speech at another listening speed and the same pitch (WSOLA, Verhelst and Roelands 1993). Pure.

// 20 ms at 24 kHz; a frame is two of them.
const HOP = 480;
const FRAME = 2 * HOP;
// The next frame is looked for within ±10 ms, at every second sample.
const SEARCH = 240;
const STRIDE = 2;
const COMPARED = 4;

/**
 * The samples `rate` times as fast. Both ends stay as they are, so that pieces that are stretched one by one
 * join without a click; a piece shorter than two frames stays whole.
 */
export function stretched(samples, rate) {
  const length = Math.round(samples.length / rate);
  if (rate === 1 || samples.length < 2 * FRAME || length < 2 * FRAME) return samples;
  const out = new Float32Array(length);
  const last = samples.length - FRAME;
  const put = (from, at) => {
    for (let i = 0; i < HOP; i += 1) {
      // The first frame has nothing to be faded with.
      const share = at ? 0.5 - 0.5 * Math.cos((Math.PI * i) / HOP) : 1;
      out[at + i] = (1 - share) * out[at + i] + share * samples[from + i];
    }
    out.set(samples.subarray(from + HOP, from + FRAME), at + HOP);
  };
  let from = 0;
  put(0, 0);
  for (let at = HOP; at < length - FRAME; at += HOP) {
    from = likeliest(samples, from + HOP, Math.round(at * rate), last);
    put(from, at);
  }
  put(last, length - FRAME);
  return out;
}

/** The start near `at` of the samples that are most like those from `natural` on. */
function likeliest(samples, natural, at, last) {
  let [best, most] = [Math.min(Math.max(0, at), last), -Infinity];
  for (let from = Math.max(0, at - SEARCH); from <= Math.min(last, at + SEARCH); from += STRIDE) {
    let sum = 0;
    for (let i = 0; i < HOP && natural + i < samples.length; i += COMPARED) sum += samples[from + i] * samples[natural + i];
    if (sum > most) [best, most] = [from, sum];
  }
  return best;
}
