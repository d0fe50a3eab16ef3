// Records from the microphone, trims the recording to its speech, plays it, and returns a WAV file.

import { announce, complain, find, say } from "./elements.js";
import { plays } from "./player.js";
import { bufferOf, decoded, drawSamples, RATE, toPcm, wavOf } from "./sound.js";
import { figure } from "./wording.js";

// The service's limits.
const MAX_SECONDS = 60;
const MIN_SECONDS = 1;
const MARGIN_SECONDS = 0.2;
const BLOCK = 0.02 * RATE;
// A browser's default bit rate for speech would be audible in a voice trained on it.
const BITS_PER_SECOND = 128000;
const FULL = 0.999;

// By the name of the error of getUserMedia.
const REFUSALS = {
  NotAllowedError: "The browser blocks the microphone. Allow it for this page in the browser's settings, or choose a file.",
  NotFoundError: "No microphone found. Connect one, or choose a file.",
  NotReadableError: "The microphone cannot be opened. Close other programs that use it, or choose a file.",
};

function refusalOf(error) {
  return new Error(REFUSALS[error.name] ?? `The microphone cannot be used (${error.name}). Choose a file.`);
}

/** Why this page cannot record, or null. */
function obstacle() {
  if (!window.isSecureContext) return "This browser can record only on pages opened over https or on localhost. Open the page that way, or choose a file.";
  if (!navigator.mediaDevices?.getUserMedia || !window.MediaRecorder) return "This browser cannot record. Choose a file.";
  return null;
}

/** The mean of the channels, samples at RATE. */
function mono(buffer) {
  const sum = new Float32Array(buffer.length);
  for (let channel = 0; channel < buffer.numberOfChannels; channel += 1) {
    buffer.getChannelData(channel).forEach((value, i) => (sum[i] += value / buffer.numberOfChannels));
  }
  return sum;
}

/** [start, end] in seconds of the blocks within 30 dB of the loudest, with a margin; everything if it is silent. */
export function speechSpan(samples) {
  const powers = [];
  for (let start = 0; start + BLOCK <= samples.length; start += BLOCK) {
    powers.push(samples.subarray(start, start + BLOCK).reduce((sum, value) => sum + value * value, 0));
  }
  const loudest = powers.reduce((a, b) => Math.max(a, b), 0);
  const heard = (power) => loudest > 0 && power > loudest / 1000;
  const first = powers.findIndex(heard);
  const all = samples.length / RATE;
  if (first < 0) return [0, all];
  const seconds = BLOCK / RATE;
  return [Math.max(0, first * seconds - MARGIN_SECONDS), Math.min(all, (powers.findLastIndex(heard) + 1) * seconds + MARGIN_SECONDS)];
}

/** The microphone without processing: artefacts of echo and noise suppression would stay in the voice. Throws Error. */
export async function openMicrophone() {
  const why = obstacle();
  if (why) throw new Error(why);
  const audio = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  return navigator.mediaDevices.getUserMedia({ audio }).catch((error) => {
    throw refusalOf(error);
  });
}

/**
 * Records a stream for at most `most` - 1 seconds. ticked(seconds): called ten times a second.
 * Returns { stop(), samples }; samples: a promise of samples at RATE, which rejects with an Error.
 */
export function recordFrom(stream, { most, ticked = () => {} }) {
  const pieces = [];
  const recorder = new MediaRecorder(stream, { audioBitsPerSecond: BITS_PER_SECOND });
  const began = performance.now();
  const stop = () => recorder.state === "recording" && recorder.stop();
  const clock = setInterval(() => {
    const seconds = (performance.now() - began) / 1000;
    ticked(seconds);
    if (seconds >= most - 1) stop();
  }, 100);
  recorder.addEventListener("dataavailable", ({ data }) => pieces.push(data));
  const samples = new Promise((resolve) => recorder.addEventListener("stop", resolve)).then(async () => {
    clearInterval(clock);
    try {
      return mono(await decoded(await new Blob(pieces).arrayBuffer()));
    } catch {
      throw new Error("This browser cannot decode its own recording. Choose a file.");
    }
  });
  recorder.start();
  return { stop, samples };
}

const FLOOR_DECIBELS = -60;

/** A peak in [0, 1] in dB below full scale, at least FLOOR_DECIBELS. */
export const decibelsOf = (peak) => Math.max(FLOOR_DECIBELS, 20 * Math.log10(peak + 1e-6));

/** Reports the peak of a stream at each animation frame, and whether it has clipped since it was opened. */
export class LevelMeter {
  #context = null;
  #clipped = false;

  /** told({ peak, clipped }) */
  constructor(told) {
    this.told = told;
  }

  open(stream) {
    this.#clipped = false;
    // At the microphone's rate: Firefox refuses to connect any other.
    const context = new AudioContext();
    const analyser = new AnalyserNode(context, { fftSize: 4096 });
    context.createMediaStreamSource(stream).connect(analyser);
    this.#context = context;
    const samples = new Float32Array(analyser.fftSize);
    const frame = () => {
      if (this.#context !== context) return;
      analyser.getFloatTimeDomainData(samples);
      const peak = samples.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      this.#clipped ||= peak >= FULL;
      this.told({ peak, clipped: this.#clipped });
      requestAnimationFrame(frame);
    };
    frame();
  }

  close() {
    this.#context?.close();
    this.#context = null;
    this.told({ peak: 0, clipped: this.#clipped });
  }
}

export class Microphone {
  /** changed(): called when a recording is made or discarded. */
  constructor(changed) {
    this.changed = changed;
    this.samples = null;
    this.hearing = {};
    this.meter = new LevelMeter(({ peak }) => (find("record-level").value = decibelsOf(peak)));
    find("record").addEventListener("click", () => (this.recorder ? this.recorder.stop() : this.#start()));
    find("trim-start").addEventListener("input", () => this.#trimmed("start"));
    find("trim-end").addEventListener("input", () => this.#trimmed("end"));
    plays(find("trim-hear"), () => bufferOf(this.#kept()), { label: "Play the selection", title: "Your recording", fault: "microphone-fault", group: this.hearing });
    find("trim-discard").addEventListener("click", () => {
      this.discard();
      find("record").focus();
    });
  }

  /** The trimmed recording as a WAV file, or null. */
  recording() {
    return this.samples && wavOf([toPcm(this.#kept())]);
  }

  discard() {
    this.hearing.source?.stop();
    this.samples = null;
    find("trim").hidden = true;
    say(find("record"), "Record with the microphone");
    this.changed();
  }

  async #start() {
    const fault = find("microphone-fault");
    complain(fault, null);
    if (this.asking) return;
    this.asking = true;
    try {
      const stream = await openMicrophone();
      this.discard();
      this.recorder = recordFrom(stream, { most: MAX_SECONDS, ticked: (seconds) => (find("record-time").textContent = `${figure(seconds, 1)} s`) });
      this.recorder.samples.finally(() => {
        stream.getTracks().forEach((track) => track.stop());
        this.meter.close();
        find("record-level").hidden = true;
        this.recorder = null;
        find("record-time").textContent = "";
      }).then((samples) => this.#show(samples), (error) => this.#failed(error));
      this.meter.open(stream);
      find("record-level").hidden = false;
      say(find("record"), "Stop recording");
      announce("Recording.");
    } catch (error) {
      complain(fault, error);
    } finally {
      this.asking = false;
    }
  }

  #failed(error) {
    say(find("record"), "Record with the microphone");
    complain(find("microphone-fault"), error);
  }

  #show(samples) {
    say(find("record"), "Record with the microphone");
    this.samples = samples;
    const all = this.samples.length / RATE;
    if (all < MIN_SECONDS) {
      this.discard();
      complain(find("microphone-fault"), new Error(`The recording is ${figure(all, 1)} s long. A voice needs at least ${MIN_SECONDS} s; 6 to 30 s are best.`));
      return;
    }
    const [start, end] = speechSpan(this.samples);
    for (const [id, value] of [["trim-start", start], ["trim-end", end]]) {
      find(id).max = all;
      find(id).value = value;
    }
    say(find("record"), "Record again");
    find("trim").hidden = false;
    drawSamples(find("trim-wave"), this.samples);
    this.#trimmed("end");
    find("trim").scrollIntoView({ block: "nearest" });
    this.changed();
    announce(`Recorded. ${find("trim-info").textContent}`);
  }

  #kept() {
    return this.samples.subarray(Math.round(find("trim-start").valueAsNumber * RATE), Math.round(find("trim-end").valueAsNumber * RATE));
  }

  /** Keeps the end that was moved a second away from the other. */
  #trimmed(which) {
    const [start, end] = [find("trim-start"), find("trim-end")];
    if (end.valueAsNumber - start.valueAsNumber < MIN_SECONDS) {
      if (which === "start") start.value = Math.max(0, end.valueAsNumber - MIN_SECONDS);
      else end.value = start.valueAsNumber + MIN_SECONDS;
      // At the end of the recording, the start moves instead.
      if (end.valueAsNumber - start.valueAsNumber < MIN_SECONDS) start.value = end.valueAsNumber - MIN_SECONDS;
    }
    for (const slider of [start, end]) slider.setAttribute("aria-valuetext", `${figure(slider.valueAsNumber, 2)} s`);
    const all = this.samples.length / RATE;
    find("trim-kept").style.left = `${(100 * start.valueAsNumber) / all}%`;
    find("trim-kept").style.right = `${100 - (100 * end.valueAsNumber) / all}%`;
    say(find("trim-info"), `${figure(this.#kept().length / RATE, 1)} s of ${figure(all, 1)} s are kept.`);
  }
}
