// The findings of `train check` in a dataset: sentences, each with its clip to play.

import { find, make, say, smallButton, tried } from "../elements.js";
import { bytes, send } from "../server.js";
import { datasetPath } from "./paths.js";
import { plays } from "../player.js";
import { decoded } from "../sound.js";
import { counted } from "../wording.js";

const MOST = 50;

/** The findings as {clip, text}: clips that training leaves out, then clips to listen to, worst first. Pure. */
export function findingsOf({ refused, suspects }) {
  return [
    ...refused.map(({ clip, seen, allowed }) => ({ clip, text: `Training leaves it out: ${seen}, allowed: ${allowed}.` })),
    ...suspects.map(({ clip, reasons }) => ({ clip, text: reasons })),
  ];
}

export class Check {
  #hearing = {};

  /** Requests the check of {dataset, settings}; hearable: whether the service has the clips. */
  async ask(wanted, hearable) {
    const [button, info] = [find("check"), find("check-info")];
    this.clear();
    button.disabled = true;
    say(info, "Checking. It takes seconds to minutes.");
    const found = await tried("train-fault", () => send("POST", "/v1/trainings/check", wanted));
    button.disabled = false;
    say(info, "");
    if (found) this.#tell(found, hearable ? wanted.dataset : null);
  }

  clear() {
    this.#hearing.source?.stop();
    say(find("check-info"), "");
    find("findings").replaceChildren();
  }

  #tell(found, dataset) {
    const findings = findingsOf(found);
    const more = findings.length > MOST ? ` The first ${MOST} of them:` : "";
    say(find("check-info"), `${counted(found.clips, "clip")}, ${found.minutes.toFixed(1)} minutes, and ${found.validation_clips} to validate. ${findings.length ? `${counted(findings.length, "clip")} to hear first.${more}` : "Nothing is wrong with them."}`);
    find("findings").replaceChildren(...findings.slice(0, MOST).map(({ clip, text }) => {
      const play = dataset && plays(smallButton("Play", { beside: clip }), async () => decoded(await bytes(`${datasetPath(dataset)}/clips/${encodeURIComponent(clip)}.wav`)), { of: clip, fault: "train-fault", group: this.#hearing });
      return make("li", {}, make("p", {}, make("span", { class: "name", text: clip }), make("span", { class: "quiet", text: ` ${text}` })), play);
    }));
  }
}
