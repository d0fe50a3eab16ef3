// The languages that are offered: by the speak box, and for recordings.

import { find, make } from "./elements.js";

// Those of XTTS-v2; the server refuses what its model was not made for.
const LANGUAGES = ["ar", "cs", "de", "en", "es", "fr", "hi", "hu", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh-cn"];

/** Fills a choice with all of XTTS-v2's; English first chosen. */
export function allLanguages(select) {
  select.replaceChildren(...named(LANGUAGES).map(({ code, name }) => make("option", { value: code, text: name, selected: code === "en" })));
}

function named(codes) {
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  return codes.map((code) => ({ code, name: names.of(code) })).sort((a, b) => a.name.localeCompare(b.name));
}

/** languages: the codes that the served voice speaks; empty: all of XTTS-v2's. */
export function offerLanguages(languages) {
  const codes = languages?.length ? languages : LANGUAGES;
  const select = find("language");
  if (select.dataset.codes === codes.join()) return;
  const before = select.value;
  select.replaceChildren(make("option", { value: "", text: "The voice's own" }),
    ...named(codes).map(({ code, name }) => make("option", { value: code, text: name })));
  select.dataset.codes = codes.join();
  if (codes.includes(before)) select.value = before;
}
