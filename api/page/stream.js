// Plays speech while it is still being generated; pauses, seeks, repeats, and plays faster or slower.

import { bufferOf, fromPcm, RATE, sounding } from "./sound.js";
import { stretched } from "./stretch.js";

// After a gap, playback waits for more audio, so that it pauses only once.
const FIRST_SECONDS = 0.15;
const AFTER_GAP_SECONDS = 0.6;
const LEAD_SECONDS = 0.03;
// What is played later is prepared later, so that a seek in a long text costs little.
const AHEAD_SECONDS = 8;
const SLICE = 2 * RATE;

/** Plays pieces of s16le PCM one after another as they arrive, or samples at RATE. */
export class Stream {
  #parts = [];
  #waiting = [];
  #waitingSeconds = 0;
  #needed = FIRST_SECONDS;
  #odd = null;
  #sources = new Set();
  #ended = false;
  #paused = false;
  // Where playback started or stands, and when it started on the context's clock.
  #from = 0;
  #startedAt = null;
  #silent = 0;
  #next = 0;
  #rate = 1;

  /** changed(stream): called when playback starts, stops, seeks or ends. */
  constructor(changed = () => {}) {
    this.changed = changed;
    this.context = sounding();
    this.pieces = [];
    this.gaps = 0;
    this.seconds = 0;
    this.looping = false;
  }

  /** A stream of all these samples at RATE, not playing yet. */
  static of(samples, changed) {
    const stream = new Stream(changed);
    stream.#paused = true;
    stream.#add(samples);
    stream.#ended = true;
    return stream;
  }

  /** Whether it sounds, or will when more has arrived. */
  get playing() {
    return !this.#paused;
  }

  /** Whether all of it has arrived. */
  get whole() {
    return this.#ended;
  }

  get duration() {
    return this.seconds;
  }

  /** The second of the speech that is heard now. */
  get position() {
    if (this.#startedAt === null) return Math.min(this.#from, this.seconds);
    const passed = (this.context.currentTime - this.#startedAt - this.#silent) * this.#rate;
    return Math.max(0, Math.min(this.#from + passed, this.seconds));
  }

  get rate() {
    return this.#rate;
  }

  /** 2 is twice as fast, at the same pitch. */
  set rate(rate) {
    if (rate === this.#rate) return;
    const at = this.position;
    this.#rate = rate;
    this.seek(at);
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
    this.#add(fromPcm(piece));
  }

  #add(samples) {
    this.#parts.push(samples);
    this.seconds += samples.length / RATE;
    if (this.#paused) return;
    this.#wait(samples);
    this.#play();
  }

  /** Announces that no more pieces will arrive. */
  end() {
    this.#ended = true;
    this.#play();
    this.#finish();
  }

  /** Ends it: nothing more will arrive, and what has arrived stays. */
  stop() {
    this.#ended = true;
    this.pause();
  }

  pause() {
    if (this.#paused) return;
    this.#from = this.position;
    this.#silence();
    this.#paused = true;
    this.changed(this);
  }

  play() {
    if (!this.#paused) return;
    this.#paused = false;
    sounding();
    this.#start(this.#ended && this.#from >= this.seconds - 0.01 ? 0 : this.#from);
    this.changed(this);
  }

  toggle() {
    if (this.#paused) this.play();
    else this.pause();
  }

  seek(seconds) {
    this.#from = Math.min(Math.max(0, seconds), this.seconds);
    if (!this.#paused) this.#start(this.#from);
    this.changed(this);
  }

  /** Every sample so far. */
  samples() {
    const whole = new Float32Array(Math.round(this.seconds * RATE));
    let at = 0;
    for (const part of this.#parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  /** Plays from this second on. */
  #start(from) {
    this.#silence();
    this.#from = from;
    const rest = this.samples().subarray(Math.round(from * RATE));
    for (let at = 0; at < rest.length; at += SLICE) this.#wait(rest.subarray(at, at + SLICE));
    this.#needed = 0;
    this.#play();
    this.#finish();
  }

  #silence() {
    for (const source of this.#sources) {
      source.onended = null;
      source.stop();
    }
    this.#sources.clear();
    this.#waiting = [];
    this.#waitingSeconds = 0;
    this.#startedAt = null;
    this.#silent = 0;
  }

  #wait(samples) {
    this.#waiting.push(samples);
    this.#waitingSeconds += samples.length / RATE;
  }

  #play() {
    const now = this.context.currentTime;
    const ranDry = this.#startedAt !== null && this.#next < now;
    if (ranDry && this.#needed === 0) {
      this.gaps += 1;
      this.#needed = AFTER_GAP_SECONDS;
    }
    if (this.#paused || !this.#waiting.length || (this.#waitingSeconds < this.#needed && !this.#ended)) return;
    this.#needed = 0;
    if (ranDry) this.#silent += now + LEAD_SECONDS - this.#next;
    if (this.#startedAt === null || ranDry) this.#next = now + LEAD_SECONDS;
    const begins = this.#startedAt === null;
    this.#startedAt ??= this.#next;
    while (this.#waiting.length && this.#next < now + AHEAD_SECONDS) this.#schedule(this.#waiting.shift());
    if (begins) this.changed(this);
  }

  #schedule(samples) {
    this.#waitingSeconds -= samples.length / RATE;
    const buffer = bufferOf(stretched(samples, this.#rate));
    const source = new AudioBufferSourceNode(this.context, { buffer });
    source.connect(this.context.destination);
    source.onended = () => {
      this.#sources.delete(source);
      if (this.#waiting.length) this.#play();
      this.#finish();
    };
    this.#sources.add(source);
    source.start(this.#next);
    this.#next += buffer.duration;
  }

  /** Ends playback, or starts the next round of a loop, once all has arrived and was heard. */
  #finish() {
    if (!this.#ended || this.#paused || this.#sources.size || this.#waiting.length) return;
    if (this.looping && this.seconds) return this.#start(0);
    this.#silence();
    this.#from = this.seconds;
    this.#paused = true;
    return this.changed(this);
  }
}
