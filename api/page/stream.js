// Plays speech while it is still being generated.

import { bufferOf, fromPcm, RATE, sounding } from "./sound.js";

// After a gap, playback waits for more audio, so that it pauses only once.
const FIRST_SECONDS = 0.15;
const AFTER_GAP_SECONDS = 0.6;
const LEAD_SECONDS = 0.03;

/** Plays pieces of s16le PCM one after another as they arrive. */
export class Stream {
  #next = 0;
  #waiting = [];
  #waitingSeconds = 0;
  #needed = FIRST_SECONDS;
  #odd = null;
  #silent = 0;
  #sources = new Set();
  #ended = false;
  #finish = null;

  constructor() {
    this.context = sounding();
    this.pieces = [];
    this.gaps = 0;
    this.seconds = 0;
    this.startedAt = null;
    /** Settles after the last sample has played, or at stop(); `done` is then true. */
    this.finished = new Promise((resolve) => (this.#finish = resolve));
    this.done = false;
    this.finished.then(() => (this.done = true));
  }

  /** The seconds played so far. */
  get position() {
    if (this.startedAt === null) return 0;
    const passed = this.context.currentTime - this.startedAt - this.#silent;
    return Math.max(0, Math.min(passed, this.seconds));
  }

  /** bytes: Uint8Array of any length; samples may be split between two calls. */
  push(bytes) {
    let whole = bytes;
    if (this.#odd !== null) {
      whole = new Uint8Array(bytes.length + 1);
      whole[0] = this.#odd;
      whole.set(bytes, 1);
    }
    this.#odd = whole.length % 2 ? whole[whole.length - 1] : null;
    const piece = whole.slice(0, whole.length & ~1);
    if (!piece.length) return;
    this.pieces.push(piece);
    this.seconds += piece.length / 2 / RATE;
    this.#waiting.push(fromPcm(piece));
    this.#waitingSeconds += piece.length / 2 / RATE;
    this.#play();
  }

  /** Announces that no more pieces will arrive. */
  end() {
    this.#ended = true;
    this.#play();
    if (!this.#sources.size) this.#finish();
  }

  stop() {
    this.#ended = true;
    this.#waiting = [];
    for (const source of this.#sources) source.stop();
    this.#finish();
  }

  /** Every sample so far. */
  samples() {
    const whole = new Float32Array(Math.round(this.seconds * RATE));
    let at = 0;
    for (const piece of this.pieces) {
      whole.set(fromPcm(piece), at);
      at += piece.length / 2;
    }
    return whole;
  }

  #play() {
    const now = this.context.currentTime;
    const ranDry = this.startedAt !== null && this.#next < now;
    if (ranDry && this.#needed === 0) {
      this.gaps += 1;
      this.#needed = AFTER_GAP_SECONDS;
    }
    if (!this.#waiting.length || (this.#waitingSeconds < this.#needed && !this.#ended)) return;
    this.#needed = 0;
    if (ranDry) this.#silent += now + LEAD_SECONDS - this.#next;
    if (this.startedAt === null || ranDry) this.#next = now + LEAD_SECONDS;
    this.startedAt ??= this.#next;
    for (const samples of this.#waiting) this.#schedule(samples);
    this.#waiting = [];
    this.#waitingSeconds = 0;
  }

  #schedule(samples) {
    const buffer = bufferOf(samples);
    const source = new AudioBufferSourceNode(this.context, { buffer });
    source.connect(this.context.destination);
    source.onended = () => {
      this.#sources.delete(source);
      if (this.#ended && !this.#sources.size && !this.#waiting.length) this.#finish();
    };
    this.#sources.add(source);
    source.start(this.#next);
    this.#next += buffer.duration;
  }
}
