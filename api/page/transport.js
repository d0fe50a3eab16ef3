// Two recordings on one clock: a switch changes the audible one, not the position.
//
// Both play at once, one with gain 0. A switch is a crossfade of 12 ms, not a seek.

import { bufferOf, loudness, matchingGains, sounding } from "./sound.js";
import { stretched } from "./stretch.js";

const FADE_SECONDS = 0.012;
// The context needs time to start; without it, the first consonant is cut off.
const LEAD_SECONDS = 0.04;

export class Transport {
  #buffers = {};
  #gains = {};
  #playing = null;
  #offset = 0;
  #audible = "output";
  #rate = 1;
  // The recordings at the rate.
  #stretched = {};

  /** changed(): called when playback starts, stops or switches. */
  constructor(changed) {
    this.changed = changed;
    this.looping = false;
    this.matching = true;
    // Whether the second recording plays after the first one.
    this.inTurn = false;
  }

  /** buffers: {output, reference}, AudioBuffers or null. Stops and rewinds. */
  load(buffers) {
    this.pause();
    this.#buffers = Object.fromEntries(Object.entries(buffers).filter(([, buffer]) => buffer));
    this.#offset = 0;
    this.#stretched = {};
    const names = Object.keys(this.#buffers);
    const gains = matchingGains(names.map((name) => loudness(this.#buffers[name].getChannelData(0))));
    this.#gains = Object.fromEntries(names.map((name, i) => [name, gains[i]]));
    if (!this.#buffers[this.#audible] && names.length) this.#audible = names[0];
    this.changed();
  }

  get names() {
    return Object.keys(this.#buffers);
  }

  get audible() {
    return this.#audible;
  }

  get playing() {
    return this.#playing !== null;
  }

  /** The length of the longer recording. */
  get duration() {
    return Math.max(0, ...Object.values(this.#buffers).map((buffer) => buffer.duration));
  }

  get position() {
    if (!this.#playing) return this.#offset;
    const { context, startedAt, from } = this.#playing;
    const passed = Math.max(0, context.currentTime - startedAt) * this.#rate;
    return this.looping && this.duration
      ? (from + passed) % this.duration
      : Math.min(from + passed, this.duration);
  }

  /** 2 is twice as fast, at the same pitch. */
  set rate(rate) {
    if (rate === this.#rate) return;
    const playing = this.playing;
    this.pause();
    this.#rate = rate;
    this.#stretched = {};
    if (playing) this.play();
  }

  #atRate(name, buffer) {
    if (this.#rate === 1) return buffer;
    this.#stretched[name] ??= bufferOf(stretched(buffer.getChannelData(0), this.#rate));
    return this.#stretched[name];
  }

  play() {
    if (this.playing || !this.names.length) return;
    const context = sounding();
    const from = this.#offset >= this.duration - 0.01 ? 0 : this.#offset;
    const startedAt = context.currentTime + LEAD_SECONDS;
    const sources = {};
    for (const [name, buffer] of Object.entries(this.#buffers)) {
      const source = new AudioBufferSourceNode(context, { buffer: this.#atRate(name, buffer) });
      const gain = new GainNode(context, { gain: this.#gainOf(name) });
      source.connect(gain).connect(context.destination);
      if (from < buffer.duration) source.start(startedAt, from / this.#rate);
      sources[name] = { source, gain, started: from < buffer.duration };
    }
    this.#playing = { context, startedAt, from, sources };
    this.changed();
  }

  pause() {
    if (!this.#playing) return;
    this.#offset = this.position;
    this.#end();
    this.changed();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  seek(seconds) {
    const playing = this.playing;
    if (playing) this.#end();
    this.#offset = Math.min(Math.max(0, seconds), this.duration);
    if (playing) this.play();
    else this.changed();
  }

  /** Switches to a recording at the same position. */
  hear(name) {
    if (!this.#buffers[name]) return;
    this.#audible = name;
    this.#setGains();
    this.changed();
  }

  other() {
    this.hear(this.names.find((name) => name !== this.#audible) ?? this.#audible);
  }

  /** on: makes both as loud as the quieter one. */
  match(on) {
    this.matching = on;
    this.#setGains();
  }

  /** Called at each animation frame during playback; ends it, or starts the next round of a loop. */
  tick() {
    if (!this.#playing) return;
    const { context, startedAt, from } = this.#playing;
    if (from + (context.currentTime - startedAt) * this.#rate < this.duration) return;
    this.#end();
    this.#offset = 0;
    const [first, second] = this.names;
    const goesOn = this.inTurn && second && this.#audible === first;
    if (goesOn) this.#audible = second;
    else if (this.inTurn && this.looping) this.#audible = first;
    if (goesOn || this.looping) this.play();
    else {
      this.#offset = this.duration;
      this.changed();
    }
  }

  #end() {
    for (const { source, gain, started } of Object.values(this.#playing.sources)) {
      if (started) source.stop();
      gain.disconnect();
    }
    this.#playing = null;
  }

  #gainOf(name) {
    if (name !== this.#audible) return 0;
    return this.matching ? this.#gains[name] : 1;
  }

  #setGains() {
    if (!this.#playing) return;
    const { context, sources } = this.#playing;
    for (const [name, { gain }] of Object.entries(sources)) {
      gain.gain.setTargetAtTime(this.#gainOf(name), context.currentTime, FADE_SECONDS / 3);
    }
  }
}
