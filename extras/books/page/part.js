// Books: upload, plan, names to correct, reading with its progress, report and files.

import { announce, calmly, complain, complainOfRefresh, entry, figuresRow, find, isNew, make, options, say, smallButton, tell, tried, twice } from "../elements.js";
import { bytes, read, request, send } from "../server.js";
import { plays } from "../player.js";
import { decoded, keep } from "../sound.js";
import { clock, counted, diskSize, grouped, roughTime, timeLeft } from "../wording.js";

const bookPath = (book) => `/v1/books/${encodeURIComponent(book)}`;

const LOOK_MILLISECONDS = 2000;
const OPEN = ["queued", "running"];
const STATES = { none: "Not planned yet.", queued: "Queued.", running: "Reading.", done: "Done.", failed: "Failed.", stopped: "Stopped." };
const MAX_NAMES = 40;

/** "Reading. Chapter 2, 35 %, about 12 min left." */
export function readingInfo({ reading, progress }) {
  const { state, ahead, paused, plan_only: plans, message } = reading;
  const waits = ahead ? `Waits for ${counted(ahead, "book")} before it.` : STATES.queued;
  const parts = [state === "queued" ? waits : state === "running" && plans ? "Planning." : state === "done" && plans ? "Planned." : STATES[state]];
  if (paused) parts.push("It stands still while somebody speaks.");
  if (progress && state === "running") parts.push(`Chapter ${progress.chapter}, ${Math.round(100 * progress.share)} %, ${timeLeft(progress.seconds_left)}.`);
  return [...parts, message].filter(Boolean).join(" ");
}

/** The numbers of chapters as the API takes them: [1, 2, 3, 5] -> "1-3,5". */
export function ranges(numbers) {
  const parts = [];
  for (const one of numbers) {
    const last = parts.at(-1);
    if (last && last[1] === one - 1) last[1] = one;
    else parts.push([one, one]);
  }
  return parts.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}

export class Part {
  events = ["book"];
  #chosen = null;
  #shown = null;
  #listed = null;
  #timer = null;
  #group = {};

  constructor() {
    this.soon = calmly(() => this.refresh(), 1000);
    find("book-file").addEventListener("change", (event) => this.#upload(event.target));
    find("book").addEventListener("change", (event) => {
      this.#chosen = event.target.value;
      this.refresh();
    });
    find("book-names-form").addEventListener("submit", (event) => this.#correct(event));
    find("book-form").addEventListener("submit", (event) => this.#read(event));
    find("book-stop").addEventListener("click", () => this.#act(() => send("DELETE", `${this.#path}/reading`), "The reading is stopped."));
    twice(find("book-remove"), "Delete book", () => this.#act(() => send("DELETE", this.#path), "The book is deleted."));
  }

  get #path() {
    return bookPath(this.#chosen);
  }

  async refresh() {
    clearTimeout(this.#timer);
    try {
      const { books, space } = await read("/v1/books");
      if (!books.some((one) => one.id === this.#chosen)) this.#chosen = books[0]?.id ?? null;
      find("book-choice").hidden = !books.length;
      say(find("books-room"), books.length ? `${diskSize(space.used)} of ${diskSize(space.most)} used` : "");
      options(find("book"), books.map((one) => ({ value: one.id, text: one.title || one.name })));
      find("book").value = this.#chosen ?? "";
      const found = this.#chosen && (await read(this.#path));
      this.#show(found || null);
      complainOfRefresh(find("books-fault"), null);
      if (OPEN.includes(found?.reading?.state)) this.#timer = setTimeout(() => !document.hidden && this.refresh(), LOOK_MILLISECONDS);
    } catch (error) {
      // Another page has deleted it.
      if (error.code === "no_book") this.#chosen = null;
      complainOfRefresh(find("books-fault"), error);
    }
  }

  async #act(what, sentence) {
    const answer = await tried("books-fault", what, sentence);
    await this.refresh();
    return answer;
  }

  async #upload(field) {
    const [file] = field.files;
    if (!file) return;
    announce(`${file.name} is uploaded.`);
    await this.#act(async () => {
      const answer = await request(`/v1/books?name=${encodeURIComponent(file.name)}`, {
        method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" },
      });
      this.#chosen = (await answer.json()).id;
    }, `${file.name} is planned.`);
    field.value = "";
  }

  #show(found) {
    this.#shown = found;
    find("book-works").hidden = !found;
    if (!found) return;
    const open = OPEN.includes(found.reading.state);
    tell(find("book-info"), readingInfo(found));
    find("book-info").classList.toggle("failed", found.reading.state === "failed");
    find("book-progress").hidden = !found.progress;
    find("book-progress").value = found.progress?.share ?? 0;
    find("book-stop").hidden = !open;
    find("book-read").disabled = find("book-correct").disabled = open;
    find("book-plan").hidden = !found.plan;
    if (found.plan && isNew(this, "plan", [found.id, found.plan])) this.#showPlan(found.plan);
    // Candidates of runs, whose values are addresses, speak on the page only.
    const voices = [...find("voice").options].filter(({ value }) => !value.startsWith("/"));
    options(find("book-voice"), voices.map(({ value, text }) => ({ value, text })));
    find("book-report").hidden = !found.report?.worst.length;
    if (found.report && isNew(this, "report", [found.id, found.report, open])) this.#showReport(found.report, open);
    find("book-made").hidden = !found.files.length;
    if (isNew(this, "files", [found.id, found.files])) find("book-files").replaceChildren(...found.files.map((one) => this.#file(one)));
  }

  #showPlan(plan) {
    const seconds = plan.chapters.reduce((sum, one) => sum + one.seconds, 0);
    const words = plan.chapters.reduce((sum, one) => sum + one.words, 0);
    say(find("book-title"), [plan.title, plan.author].filter(Boolean).join(", "));
    say(find("book-sum"), `${grouped(words)} words, about ${clock(seconds, 0)} of speech in ${plan.language}. Speaking all of it takes ${roughTime(seconds / plan.rate)} (${plan.rate.toFixed(2)} × real time).`);
    const left = plan.left_out.map((one) => `${one.title} (${one.reason})`).join(", ");
    const notes = [left && `Not read aloud: ${left}.`, plan.unreadable && `The voice does not know: ${plan.unreadable}`, ...plan.notes];
    tell(find("book-notes"), notes.filter(Boolean).join(" "));
    // A plan that is made again leaves unticked what was.
    const unticked = this.#listed === this.#shown.id ? this.#values("chapter", ":not(:checked)") : [];
    this.#listed = this.#shown.id;
    find("book-chapters").replaceChildren(...plan.chapters.map((one) => {
      const row = figuresRow("", grouped(one.words), clock(one.seconds, 0));
      const box = make("input", { type: "checkbox", name: "chapter", value: one.number, checked: !unticked.includes(`${one.number}`) });
      row.firstChild.append(make("label", { class: "check" }, box, ` ${one.title || `Chapter ${one.number}`}`));
      return row;
    }));
    find("book-samples").replaceChildren(...plan.samples.map((one) => make("li", {}, this.#play(one), make("span", { text: one.text }))));
    find("book-names-form").hidden = !plan.names.length;
    find("book-names").replaceChildren(...plan.names.slice(0, MAX_NAMES).map((one) => {
      const field = make("input", { name: one.word, value: one.said, maxlength: 80, autocomplete: "off", placeholder: "as it is written", "aria-label": `How ${one.word} is said` });
      return make("tr", {}, make("th", { scope: "row", text: one.word }), make("td", {}, field));
    }));
  }

  #showReport(report, open) {
    say(find("book-report-sum"), `${counted(report.sentences, "sentence")}; ${report.faulty} ended badly in their best take, ${report.unread} could not be read.`);
    find("book-worst").replaceChildren(...report.worst.map((one) => {
      const again = smallButton("Say again", { beside: one.text, disabled: open });
      again.addEventListener("click", () => this.#ask({ again: [one.key], ...(report.chapters.length && { chapters: ranges(report.chapters) }) }, "It is said again."));
      return make("li", {}, this.#play(one), again, entry(one.text, ` ${one.noticed}`));
    }));
  }

  #play(one) {
    const button = smallButton("Play", { beside: one.text });
    return plays(button, async () => decoded(await bytes(one.sound)), { of: one.text, fault: "books-fault", group: this.#group });
  }

  #file(one) {
    const save = smallButton("Save", { beside: one.name });
    save.addEventListener("click", () => this.#act(async () => keep(await (await request(one.address)).blob(), one.name), "Saved."));
    return make("li", {}, save, entry(one.name, ` ${diskSize(one.bytes)}`));
  }

  #correct(event) {
    event.preventDefault();
    const fields = [...find("book-names").querySelectorAll("input")];
    const names = Object.fromEntries(this.#shown.plan.names.slice(MAX_NAMES).map((one) => [one.word, one.said]));
    for (const field of fields) names[field.name] = field.value;
    this.#act(async () => {
      await send("PUT", `${this.#path}/names`, { names });
      await send("POST", `${this.#path}/reading`, { plan_only: true });
    }, "Saved. The samples are spoken again.");
  }

  #read(event) {
    event.preventDefault();
    this.#ask({}, "The reading is queued.");
  }

  /** The values of the ticked boxes of a name, or of those in another state. */
  #values(name, state = ":checked") {
    return [...find("book-works").querySelectorAll(`input[name=${name}]${state}`)].map((one) => one.value);
  }

  /** Asks for the reading as the form says it. */
  #ask(more, sentence) {
    const form = find("book-form").elements;
    const wanted = {
      chapters: ranges(this.#values("chapter").map(Number)),
      formats: this.#values("form"), captions: this.#values("caption"), voice: form.voice.value || "default", retakes: Number(form.retakes.value), ...more,
    };
    find("books-title").scrollIntoView({ block: "nearest" }); // Refusals and the progress are below it.
    if (!wanted.chapters) return complain(find("books-fault"), { message: "Choose a chapter." });
    return this.#act(() => send("POST", `${this.#path}/reading`, wanted), sentence);
  }
}
