// The voices: upload, record, rename, delete, and choose one to speak.

import { announce, entry, find, isNew, make, menu, say, smallButton, tried, twice } from "./elements.js";
import { candidatesOf } from "./judged.js";
import { Microphone } from "./microphone.js";
import { bytes, read, request, runPath, send } from "./server.js";
import { plays } from "./player.js";
import { decoded, keep } from "./sound.js";
import { go } from "./views.js";
import { candidateName, capital, figure, fileName, moment, withoutHash } from "./wording.js";

const ORIGINS = { served: "from the served model", speaker: "speaker of the served model", adapter: "adapter of the served model", imported: "from a file", upload: "added" };

/** [{value, text}] of the candidates of a run that can speak; value: the path of the request. */
function speakable(run) {
  const names = run?.evaluation
    ? candidatesOf(run).filter((one) => one.can_speak).map((one) => ({ id: one.id, epoch: one.epoch }))
    : (run?.epochs ?? []).filter((one) => one.checkpoint_state === "whole").map(({ epoch }) => ({ id: `epoch_${epoch}`, epoch }));
  return names.map((one) => ({
    value: `${runPath(run.id)}/candidates/${encodeURIComponent(one.id)}/speech`, text: capital(candidateName(one)),
  }));
}

const nameOf = (voice) => (voice.origin === "served" ? capital(withoutHash(voice.name || voice.id)) : voice.name || voice.id);

/**
 * [{person, voices}] in the order of the list: each voice, followed by the styles of its person.
 * `anna:whisper` is a style of `anna`, ignoring case and order; person: the name.
 */
export function byPerson(voices) {
  const plain = (name) => name.toLowerCase().replace(/\s+/g, " ").replace(/ ?: ?/g, ":").trim();
  const found = [];
  for (const voice of voices) {
    const name = nameOf(voice);
    const [, person, style] = /^(.+):(.+)$/.exec(name) ?? [null, name, ""];
    const whose = plain(person);
    const known = style && voice.origin !== "served" && found.find((one) => one.whose === whose);
    if (known) known.voices.push(voice);
    else found.push({ person, whose, voices: [voice] });
  }
  return found;
}

// The number of people on a page of the list.
const PAGE = 10;

/**
 * A page of the people with a voice whose name contains `wanted`: {shown, first, total}, first from 0. An
 * offset after the last becomes that of the last page. Pure.
 */
export function pageOf(persons, wanted, offset) {
  const word = wanted.trim().toLowerCase();
  const found = persons.filter((one) => one.voices.some((voice) => nameOf(voice).toLowerCase().includes(word)));
  const last = Math.max(0, Math.ceil(found.length / PAGE) - 1) * PAGE;
  const first = Math.min(Math.max(0, offset), last);
  return { shown: found.slice(first, first + PAGE), first, total: found.length };
}

const MAX_RECORDINGS = 10;
/** Whether a chosen file is a voice (docs/voice-file.md), not a recording. */
export const isVoiceFile = (name) => /\.(sotaque|ovsvoice|voicebox(\.zip)?)$/i.test(name);
/** Whether a voice has this name, as the list shows it. Pure. */
export const isTaken = (name, voices) => voices.some((one) => nameOf(one).trim().toLowerCase() === name.trim().toLowerCase());
/** "1 file", "3 files". */
const files = (count) => `${count} ${count === 1 ? "file" : "files"}`;

/** "Quality: good.", or the word and the remarks. */
function qualityOf({ word, remarks }) {
  return [`Quality: ${word}.`, ...(remarks ?? [])].join(" ");
}

/** Shows a sentence in an element, or hides it without one. */
function tellIn(id, sentence) {
  say(find(id), sentence);
  find(id).hidden = !sentence;
}

export class Voices {
  #offset = 0;

  constructor() {
    find("voice-filter").addEventListener("input", () => this.#turn(0));
    find("voices-before").addEventListener("click", () => this.#turn(this.#offset - PAGE));
    find("voices-after").addEventListener("click", () => this.#turn(this.#offset + PAGE));
    const form = find("voice-form");
    find("add-voice").addEventListener("click", () => {
      form.scrollIntoView();
      form.elements.file.focus({ preventScroll: true });
    });
    const file = form.elements.file;
    this.microphone = new Microphone(() => (file.required = !this.microphone.samples));
    // Files or a recording, whichever came last.
    file.addEventListener("change", () => {
      if (file.files.length) this.microphone.discard();
      this.#tellFiles(file.files.length);
      const [first] = file.files;
      if (first && !form.elements.name.value) form.elements.name.value = first.name.replace(/\.(voicebox\.zip|\w+)$/i, "").slice(0, 64);
    });
    form.elements.name.addEventListener("input", () => this.#doubt(""));
    form.addEventListener("reset", () => this.#tellFiles(0));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#add(event.target);
    });
  }

  /** Asks before the voice of a file gets a name that exists and a number; "" takes the question back. */
  #doubt(name) {
    const button = find("voice-form").querySelector("[type=submit]");
    button.dataset.sure = name;
    say(button, name ? `Add a second ${name}` : "Add voice");
    tellIn("voices-told", name ? `A voice is called ${name} already. Choose another name, or press again: the new one gets a number.` : "");
  }

  /** Shows the number of chosen files, if there are several. */
  #tellFiles(count) {
    const info = find("files-info");
    const what = count > MAX_RECORDINGS ? `; a voice has at most ${MAX_RECORDINGS} recordings.` : ". They become one voice.";
    info.hidden = count < 2;
    info.textContent = info.hidden ? "" : `${files(count)} chosen${what}`;
    if (!info.hidden) announce(info.textContent);
  }

  async refresh() {
    await tried("voices-fault", async () => this.#show((await read("/v1/voices")).voices ?? []));
  }

  #show(voices) {
    if (!isNew(this, "shown", voices)) return;
    this.voices = voices;
    this.#choices();
    find("voices-empty").hidden = voices.length > 0;
    this.#turn(this.#offset);
  }

  /** Shows the page of people that starts here. */
  #turn(offset) {
    const persons = byPerson(this.voices ?? []);
    const { shown, first, total } = pageOf(persons, find("voice-filter").value, Math.floor(offset / PAGE) * PAGE);
    this.#offset = first;
    find("voice-pages").hidden = persons.length <= PAGE;
    say(find("voices-info"), total ? `${first + 1} to ${first + shown.length} of ${total}` : "No voice has this name.");
    find("voices-before").disabled = first === 0;
    find("voices-after").disabled = first + PAGE >= total;
    find("voice-list").replaceChildren(...shown.map(({ voices: [first, ...styles] }) => {
      const item = this.#item(first);
      const below = styles.map((voice) => this.#item(voice));
      if (below.length) item.append(make("ul", { "aria-label": `Styles of ${nameOf(first)}` }, ...below));
      return item;
    }));
  }

  /** Offers the candidates of a run, which speak without being served. */
  offerCandidates(run) {
    const found = speakable(run);
    if (!isNew(this, "candidatesShown", found)) return;
    this.candidates = found;
    this.#choices();
  }

  #choices() {
    const select = find("voice");
    const before = select.value;
    const option = ({ value, text }) => make("option", { value, text });
    const offer = (voice) => option({ value: voice.id, text: nameOf(voice) });
    const voices = this.voices?.length ? this.voices : [{ id: "", name: "Default" }];
    const persons = byPerson(voices).map((one) => one.voices.length === 1 ? offer(one.voices[0])
      : make("optgroup", { label: one.person }, ...one.voices.map(offer)));
    const group = make("optgroup", { label: "Not served, for this page only" }, ...(this.candidates ?? []).map(option));
    select.replaceChildren(...persons, ...(this.candidates?.length ? [group] : []));
    const kept = [...select.options].find((one) => one.value === before);
    if (kept) select.value = before;
    else if (before) select.dispatchEvent(new Event("change"));
  }

  #item(voice) {
    const name = nameOf(voice);
    const seconds = Number.isFinite(voice.duration_seconds) ? `${figure(voice.duration_seconds, 1)} s` : "";
    const several = voice.recordings > 1 && `${voice.recordings} recordings`;
    const about = [several, seconds, ORIGINS[voice.origin] ?? voice.origin, moment(voice.created)].filter(Boolean).join(", ");
    const details = entry(name, about, voice.quality && make("span", { class: "quiet", text: qualityOf(voice.quality) }));
    const of = `the recording of ${name}`;
    const hear = make("button", { type: "button", class: "round small", "aria-label": `Play ${of}`, disabled: !voice.preview });
    plays(hear, async () => decoded(await bytes(voice.preview)), { of, title: name, by: "The recording of this voice", fault: "voices-fault" });
    const isOwn = voice.origin === "upload";
    const buttons = [
      smallButton("Speak with it", { beside: name, onclick: () => this.#speakWith(voice.id) }),
      ...(isOwn || voice.origin === "imported" ? [this.#saver(voice, name)] : []),
      ...(isOwn ? [...this.#adder(voice, name), this.#renamer(voice, name, details)] : []),
      smallButton("Copy its id", { beside: `${name}: ${voice.id}`, onclick: () => tried("voices-fault", () => navigator.clipboard.writeText(voice.id), `${voice.id} is copied.`) }),
      ...(isOwn || voice.origin === "imported" ? [this.#remover(voice, name)] : []),
    ];
    return make("li", {}, hear, details, menu(name, ...buttons));
  }

  #speakWith(id) {
    find("voice").value = id;
    find("voice").dispatchEvent(new Event("change", { bubbles: true }));
    go("speak");
    addEventListener("hashchange", () => find("text").focus(), { once: true });
  }

  #saver(voice, name) {
    const save = smallButton("Save as file", { beside: name });
    save.addEventListener("click", async () => {
      save.disabled = true;
      await tried("voices-fault", async () => {
        const answer = await request(`/v1/voices/${encodeURIComponent(voice.id)}/file`);
        keep(await answer.blob(), `${fileName(name)}.sotaque`);
      }, `${name} is saved.`);
      save.disabled = false;
    });
    return save;
  }

  #remover(voice, name) {
    return twice(smallButton("Remove"), "Remove", async () => {
      await this.#change(() => send("DELETE", `/v1/voices/${encodeURIComponent(voice.id)}`), `${name} is removed.`);
      find("voices").focus();
    }, { of: name });
  }

  /** A button that opens the file dialog, and its hidden field. */
  #adder(voice, name) {
    const { accept } = find("voice-form").elements.file;
    const field = make("input", { type: "file", accept, multiple: true, hidden: true, "aria-label": `Recordings to add to ${name}` });
    const button = smallButton("Add recordings", { beside: `to ${name}` });
    button.disabled = voice.recordings >= MAX_RECORDINGS;
    button.addEventListener("click", () => field.click());
    field.addEventListener("change", async () => {
      if (!field.files.length) return;
      const body = new FormData();
      for (const file of field.files) body.append("file", file);
      button.disabled = true;
      const changed = await this.#change(() => send("POST", `/v1/voices/${encodeURIComponent(voice.id)}/recordings`, body), (made) =>
        `${files(field.files.length)} added; ${name} has ${made.recordings} recordings.${made.quality ? ` ${qualityOf(made.quality)}` : ""}`);
      button.disabled = false;
      field.value = "";
      if (changed) find("voices").focus();
    });
    return [button, field];
  }

  /** Turns the name into a field: Enter saves it, Escape does not. */
  #renamer(voice, name, details) {
    const button = smallButton("Rename", { beside: name });
    button.addEventListener("click", () => {
      const field = make("input", { type: "text", required: true, maxlength: 100, "aria-label": `New name of ${name}`, autocomplete: "off" });
      field.value = name;
      const form = make("form", { class: "row rename" }, field, make("button", { class: "plain small", text: "Save" }));
      const leave = () => {
        form.replaceWith(details);
        button.closest(".menu").firstChild.focus();
      };
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        const kept = await this.#change(
          () => send("PATCH", `/v1/voices/${encodeURIComponent(voice.id)}`, { name: field.value }), `${name} is now ${field.value}.`);
        if (kept) find("voices").focus();
      });
      form.addEventListener("keydown", (event) => event.key === "Escape" && leave());
      details.replaceWith(form);
      // After the menu has closed, and the focus with it.
      setTimeout(() => field.select());
    });
    return button;
  }

  async #add(form) {
    const body = new FormData(form);
    const wanted = body.get("name").trim();
    const button = form.querySelector("[type=submit]");
    const recorded = this.microphone.recording();
    const [file] = recorded ? [] : form.elements.file.files;
    const isImport = file && isVoiceFile(file.name);
    if (isTaken(wanted, this.voices ?? []) && !(isImport && button.dataset.sure === wanted)) {
      if (isImport) return this.#doubt(wanted);
      return tellIn("voices-told", `A voice is called ${wanted} already. Choose another name, or add the recordings to that voice by its menu.`);
    }
    if (recorded) body.set("file", recorded, "microphone.wav");
    button.disabled = true;
    const act = isImport
      ? async () => (await request(`/v1/voices/import?name=${encodeURIComponent(body.get("name"))}`, { method: "POST", body: file })).json()
      : () => send("POST", "/v1/voices", body);
    const added = await this.#change(act, (made) => `${body.get("name")} is added${made.recordings > 1 ? ` with ${made.recordings} recordings` : ""}.${made.quality ? ` ${qualityOf(made.quality)}` : ""}`);
    button.disabled = false;
    if (!added) return undefined;
    this.#doubt("");
    form.reset();
    this.microphone.discard();
    if (added.id) find("voice").value = added.id;
    // Show the new voice, wherever it is in the list.
    find("voice-filter").value = "";
    this.#turn(byPerson(this.voices).findIndex((one) => one.voices.some(({ id }) => id === added.id)));
    const speak = smallButton("Speak with it", { beside: wanted, onclick: () => this.#speakWith(added.id) });
    find("voices-told").replaceChildren(find("announcement").textContent, " ", speak);
    find("voices-told").hidden = false;
    find("voices-told").scrollIntoView({ block: "nearest" });
    return undefined;
  }

  /** Acts, refreshes the list and announces the sentence; an error shows its message. */
  async #change(act, sentence) {
    const answer = await tried("voices-fault", act);
    if (!answer) return null;
    await this.refresh();
    announce(typeof sentence === "function" ? sentence(answer) : sentence);
    return answer;
  }
}
