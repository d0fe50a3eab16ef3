// What became of every second of the recordings, and what of the text and the corrections has no clip.

import { find, make, say } from "./elements.js";
import { clock, counted } from "./wording.js";

/** A table of reasons; all recordings together, each second once. found: a dataset. */
export function account(place, found) {
  find("account-works").hidden = !found.account.length;
  const sums = new Map();
  for (const one of found.account) {
    for (const [reason, seconds] of Object.entries(one.seconds_by_reason)) sums.set(reason, (sums.get(reason) ?? 0) + seconds);
  }
  const all = found.account.reduce((sum, one) => sum + one.seconds, 0);
  const rows = [...sums].sort((a, b) => b[1] - a[1]).map(([reason, seconds]) => make("tr", {},
    make("th", { scope: "row", text: reason }), make("td", { class: "number", text: clock(seconds, 0) }),
    make("td", { class: "number", text: `${((100 * seconds) / all).toFixed(1)} %` })));
  place.replaceChildren(...rows);
  const { clips } = found;
  const parts = [counted(clips.total, "clip"), `${clips.dropped} dropped`, `${clips.without_text} without a text`, `${clips.corrected} corrected`];
  say(find("account-told"), `${clock(all, 0)} recorded; ${parts.join(", ")}. Speech was found by ${found.speech_by || "nothing"}.`);
}

/** Sentences of the text that nobody says. */
export function unheard(place, found) {
  place.hidden = !found.num_unheard;
  say(place.querySelector("summary"), `${counted(found.num_unheard, "sentence")} of the text not heard`);
  place.querySelector("ul").replaceChildren(...found.unheard.map((sentence) => make("li", { text: sentence })));
}

/** Corrections that fit no clip of the newest cut: kept, and told. */
export function unplaced(place, found) {
  place.hidden = !found.unplaced.length;
  say(place.querySelector("summary"), `${counted(found.unplaced.length, "correction")} without a clip in this cut`);
  place.querySelector("ul").replaceChildren(...found.unplaced.map((one) => make("li", {
    text: `${one.name}: ${one.dropped ? "dropped" : one.text} (was: ${one.was || "nothing"})`,
  })));
}
