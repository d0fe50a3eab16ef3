// The player at the bottom: one sound at a time, whichever part of the page it comes from.

import { complain, find, relabel, say } from "./elements.js";
import { sounding } from "./sound.js";
import { Stream } from "./stream.js";
import { clock, spokenTime } from "./wording.js";

const STEP_SECONDS = 2;
const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -5, PageUp: 5 };

/**
 * Shows a source and plays it: {playing, position, duration, rate, looping, toggle(), pause(), seek(seconds)};
 * `whole` is false while more of it arrives. Two recordings in step also have tick(), called at each frame,
 * names, and other(), which switches between them.
 */
class Player {
  #source = null;
  #save = null;
  #listens = false;
  #frame = 0;

  /** Makes a source the one in the player, and pauses the one before. save(): saves it as a file, or null. */
  take(source, { title, by = "", save = null }) {
    if (!this.#listens) this.#listen();
    if (this.#source !== source) {
      this.#source?.pause();
      this.#source = source;
      source.looping = find("player-loop").ariaPressed === "true";
      source.rate = Number(find("player-rate").value);
    }
    this.#save = save;
    find("player").hidden = false;
    say(find("player-title"), title);
    say(find("player-by"), by);
    find("player-save").hidden = !save;
    this.refresh();
  }

  /** Whether a source is in the player. */
  has(source) {
    return source === this.#source;
  }

  /** Shows the state of the source; called when it has changed. */
  refresh() {
    const source = this.#source;
    if (!source) return;
    source.tick?.();
    find("player-switch").hidden = !(source.names?.length > 1);
    const { position, duration, playing } = source;
    find("player-toggle").classList.toggle("playing", playing);
    find("player-toggle").setAttribute("aria-label", `${playing ? "Pause" : "Play"} ${find("player-title").textContent.slice(0, 60)}`);
    const slider = find("player-position");
    slider.max = String(duration || 1);
    slider.value = String(position);
    slider.style.setProperty("--played", `${duration ? (100 * position) / duration : 0}%`);
    slider.setAttribute("aria-valuetext", `${spokenTime(position)} of ${spokenTime(duration)}`);
    say(find("player-now"), clock(position, 0));
    say(find("player-length"), `${clock(duration, 0)}${source.whole === false ? " so far" : ""}`);
    cancelAnimationFrame(this.#frame);
    if (playing) this.#frame = requestAnimationFrame(() => this.refresh());
  }

  #listen() {
    this.#listens = true;
    find("player-toggle").addEventListener("click", () => this.#source.toggle());
    find("player-position").addEventListener("input", (event) => this.#source.seek(Number(event.target.value)));
    find("player-loop").addEventListener("click", ({ target }) => {
      this.#source.looping = target.ariaPressed !== "true";
      target.ariaPressed = String(this.#source.looping);
    });
    find("player-rate").addEventListener("change", (event) => (this.#source.rate = Number(event.target.value)));
    find("player-save").addEventListener("click", () => this.#save());
    find("player-switch").addEventListener("click", () => this.#source.other());
    document.addEventListener("keydown", (event) => this.#key(event));
  }

  // Space, the arrow keys and X play, seek and switch wherever no control has the focus.
  #key(event) {
    const { target } = event;
    const isFree = target === document.body || target.matches("main, section[tabindex], #player-position");
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || !isFree) return;
    const isSlider = target === find("player-position");
    const by = isSlider || /Left|Right/.test(event.key) ? STEPS[event.key] : 0;
    if (event.key === " ") this.#source.toggle();
    else if (by) this.#source.seek(this.#source.position + by * STEP_SECONDS);
    else if (event.key.toLowerCase() === "x") this.#source.other?.();
    else return;
    event.preventDefault();
  }
}

export const player = new Player();

/**
 * Makes a button play the AudioBuffer that `load` resolves with, and stop it at the second press. of: the text
 * after "Play" for screen readers; title, by: for the player; fault: the id of the element for errors; group:
 * buttons that share it; `group.source` is their last sound.
 */
export function plays(button, load, { label = "Play", of = "", title = of, by = "", fault, group = {} }) {
  let mine = null;
  button.addEventListener("click", async () => {
    if (mine?.playing) return mine.stop();
    sounding(); // Within the click, else the browser blocks the audio.
    try {
      const samples = (await load()).getChannelData(0);
      mine = Stream.of(samples, (stream) => {
        const act = stream.playing ? "Stop" : label;
        button.classList.toggle("playing", stream.playing);
        if (button.classList.contains("round")) button.setAttribute("aria-label", `${act} ${of}`);
        else relabel(button, act, of);
        player.refresh();
      });
      group.source = mine;
      player.take(mine, { title: title || label, by });
      mine.play();
    } catch (error) {
      complain(find(fault), error);
    }
    return undefined;
  });
  return button;
}
