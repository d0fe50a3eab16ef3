// Keeping what was spoken as a file.
//
// The page has the sound as samples, which are a WAV with a header. Any other format is made by the
// service: it says the same once more, since the same seed says the same.

import { announce, complain, find, make, say } from "./elements.js";
import { request } from "./server.js";
import { keep, wavOf } from "./sound.js";

// Those that a player opens, in the order of the choice. Raw PCM is none of them.
const NAMES = { wav: "WAV", mp3: "MP3", flac: "FLAC", opus: "Opus", aac: "AAC", m4a: "M4A" };

export class Saving {
  #spoken = null;

  constructor() {
    this.offer();
    find("keep-spoken").addEventListener("click", () => this.#save());
  }

  /** formats: what the service says that it can make. */
  offer(formats = ["wav"]) {
    const select = find("format");
    const offered = Object.keys(NAMES).filter((name) => name === "wav" || formats.includes(name));
    if (select.dataset.offered === offered.join()) return;
    const before = select.value;
    select.replaceChildren(...offered.map((name) => make("option", { value: name, text: NAMES[name] })));
    select.dataset.offered = offered.join();
    if (offered.includes(before)) select.value = before;
  }

  get format() {
    return find("format").value;
  }

  /** spoken: the samples (pieces), a file's name without its ending, and the request with its answer's voice. */
  spoken(spoken) {
    this.#spoken = spoken;
  }

  async #save() {
    const { pieces, name } = this.#spoken;
    const form = this.format;
    if (form === "wav") return keep(wavOf(pieces), `${name}.wav`);
    const button = find("keep-spoken");
    button.disabled = true;
    say(button, "Saving …");
    try {
      await this.#saveAs(form, this.#spoken);
    } catch (error) {
      complain(find("speak-fault"), error);
    } finally {
      button.disabled = false;
      say(button, "Save");
    }
    return undefined;
  }

  async #saveAs(form, { path, body, spokenBy, name }) {
    const answer = await request(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "audio/*, application/json" },
      body: JSON.stringify({ ...body, response_format: form }),
    });
    const now = answer.headers.get("X-Model");
    keep(await answer.blob(), `${name}.${form}`);
    complain(find("speak-fault"), null);
    if (now === spokenBy) announce(`Saved as ${NAMES[form]}.`);
    else complain(find("speak-fault"), { message: `The voice has changed since: the file is spoken by ${now}. Speak again to hear it.` });
  }
}
