// Audio in the browser: one context at the voices' sample rate, decoding, loudness, WAV.

// The vocoder's rate. At another one, the browser would resample each streamed piece separately, which
// clicks at every joint.
export const RATE = 24000;

let context = null;

/** The AudioContext of the page. The browser starts it only in a click or a key press. */
export function sounding() {
  context ??= new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
  if (context.state !== "running") context.resume();
  return context;
}

/** The bytes of a WAV file -> AudioBuffer at RATE; works before any click. */
export async function decoded(wav) {
  return new OfflineAudioContext(1, 1, RATE).decodeAudioData(wav);
}

/** Samples at RATE -> AudioBuffer. */
export function bufferOf(samples) {
  const buffer = new AudioBuffer({ length: samples.length, sampleRate: RATE });
  buffer.copyToChannel(samples, 0);
  return buffer;
}

/** Draws a wave of vertical bars of equal width, `gap` apart; heights: in [0, 1]. */
export function drawWave(canvas, heights, gap = 0) {
  canvas.width = canvas.clientWidth * devicePixelRatio;
  canvas.height = canvas.clientHeight * devicePixelRatio;
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(canvas).color;
  const each = canvas.width / Math.max(heights.length, 1);
  heights.forEach((share, place) => {
    const height = Math.max(gap || 1, canvas.height * share);
    pen.fillRect(place * each, (canvas.height - height) / 2, Math.max(each - gap, 1), height);
  });
}

/** Draws the wave of samples: for each column of pixels, the largest of them. */
export function drawSamples(canvas, samples) {
  const columns = Math.trunc(canvas.clientWidth * devicePixelRatio);
  const each = samples.length / columns;
  drawWave(canvas, Array.from({ length: columns }, (_, column) => {
    let most = 0;
    for (let i = Math.floor(column * each); i < (column + 1) * each; i += 1) most = Math.max(most, Math.abs(samples[i] ?? 0));
    return most;
  }));
}

/** The root mean square without pauses. */
export function loudness(samples, block = 1200) {
  const powers = [];
  for (let start = 0; start < samples.length; start += block) {
    const end = Math.min(start + block, samples.length);
    let sum = 0;
    for (let i = start; i < end; i += 1) sum += samples[i] ** 2;
    powers.push(sum / (end - start));
  }
  const loudest = powers.reduce((a, b) => Math.max(a, b), 0);
  // A block 30 dB below the loudest is a pause.
  const speech = powers.filter((power) => power > loudest / 1000);
  return speech.length ? Math.sqrt(speech.reduce((a, b) => a + b, 0) / speech.length) : 0;
}

/** Gains that make all as loud as the quietest; at most 1, so that nothing clips. */
export function matchingGains(loudnesses) {
  const quietest = Math.min(...loudnesses.filter((one) => one > 0));
  return loudnesses.map((one) => (one > 0 ? quietest / one : 1));
}

/** s16le bytes -> samples in [-1, 1). */
export function fromPcm(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength & ~1);
  return Float32Array.from({ length: view.byteLength / 2 }, (_, i) => view.getInt16(2 * i, true) / 32768);
}

/** Samples in [-1, 1] -> s16le bytes. */
export function toPcm(samples) {
  const view = new DataView(new ArrayBuffer(2 * samples.length));
  samples.forEach((value, i) => view.setInt16(2 * i, Math.round(Math.max(-1, Math.min(1, value)) * 32767), true));
  return new Uint8Array(view.buffer);
}

/** s16le mono bytes at RATE as a WAV file. mark: the comment of synthetic speech (ASCII); "" for a recording. */
export function wavOf(pieces, mark = "") {
  const size = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const room = mark.length + 2 - (mark.length % 2); // The comment ends with a zero, and its room is even.
  const data = mark ? 56 + room : 36;
  const header = new DataView(new ArrayBuffer(data + 8));
  const words = (at, text) => [...text].forEach((c, i) => header.setUint8(at + i, c.charCodeAt(0)));
  words(0, "RIFF");
  header.setUint32(4, data + size, true);
  words(8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, 1, true);
  header.setUint32(24, RATE, true);
  header.setUint32(28, RATE * 2, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  if (mark) {
    words(36, "LIST");
    header.setUint32(40, 12 + room, true);
    words(44, "INFOICMT");
    header.setUint32(52, mark.length + 1, true);
    words(56, mark);
  }
  words(data, "data");
  header.setUint32(data + 4, size, true);
  return new Blob([header.buffer, ...pieces], { type: "audio/wav" });
}

/** The s16le bytes inside a WAV file, after any other chunks. */
export function pcmOf(wav) {
  const view = new DataView(wav.buffer, wav.byteOffset, wav.byteLength);
  for (let at = 12; at + 8 <= view.byteLength; ) {
    const size = view.getUint32(at + 4, true);
    // "data", big-endian. A streamed WAV may declare too many bytes; subarray stops at the end.
    if (view.getUint32(at) === 0x64617461) return wav.subarray(at + 8, at + 8 + size);
    at += 8 + size + (size % 2);
  }
  return new Uint8Array(0);
}

/** Saves a blob as a file. */
export function keep(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
