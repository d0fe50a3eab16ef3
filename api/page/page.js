// The state of the page, its parts, and its actions. Start reading here.

import { Comparison } from "./compare.js";
import { Curves } from "./curves.js";
import { Desk } from "./desk.js";
import { announce, calmly, closeMenus, complain, find, isNew, say, tried } from "./elements.js";
import { EpochsTable, showProgress, showRuns, showServed } from "./epochs.js";
import { listen } from "./events.js";
import { candidatesOf, JudgedTable, showVerdict } from "./judged.js";
import { showMeanings } from "./meanings.js";
import { RunList } from "./runs.js";
import { joined } from "./scales.js";
import { epochPath, read, runPath, send } from "./server.js";
import { SpeakBox } from "./speak.js";
import { showConnection, showSpeaker, showStatus } from "./status.js";
import { followViews, go, takeDrops } from "./views.js";
import { Voices } from "./voices.js";
import { candidateName, capital, servedName } from "./wording.js";

// The server may send many events a second.
const NEWS_MILLISECONDS = 1000;

const known = { languages: [], runs: [], served: null, promoted: false, follows: "latest", records: new Map(), next: new Map(), details: new Map() };
// run null: the current one, or the first with content; epoch null: the newest one with a sample;
// candidate null: the best.
const chosen = { run: null, epoch: null, candidate: null, busy: null };

const desk = new Desk();
const curves = new Curves();
const voices = new Voices();
const runList = new RunList({ opened: (id) => open(id), changed: () => attempt(refreshRuns) });
const epochs = new EpochsTable({
  chosen: (epoch) => choosing({ epoch }),
  played: (epoch) => playing({ epoch }),
  promoted: (epoch) => promote(epoch),
});
const judged = new JudgedTable({
  chosen: (candidate) => choosing({ candidate }),
  played: (candidate) => playing({ candidate }),
  promoted: (epoch) => promote(epoch),
});
const comparison = new Comparison(desk, { changed: () => show(), wanted: (id) => attempt(() => refreshDetails(id)) });
const speakBox = new SpeakBox();
// An extra's part has `events`, which lead to a call of its `soon()`, and optionally offer(languages),
// runs(list), trainingOf(run), and chosen(candidate), which is null without an evaluation.
const parts = await Promise.all([...document.querySelectorAll("[data-part]")].map(async ({ dataset }) => {
  const { Part } = await import(`./${dataset.part}/part.js`);
  return new Part({ opened: (id) => open(id), changed: () => show() });
}));
showMeanings();
closeMenus();
takeDrops();
followViews(() => (find("about").open = false));

function run() {
  const shows = (one) => one.epochs.length > 0 || one.training;
  return known.runs.find((one) => one.id === chosen.run) ?? known.runs.find(shows) ?? known.runs[0] ?? null;
}

function selected() {
  const of = run()?.epochs ?? [];
  return of.find((one) => one.epoch === chosen.epoch) ?? newestHeard(of);
}

function newestHeard(list) {
  const newest = [...list].sort((a, b) => b.epoch - a.epoch);
  const found = newest.find((one) => one.sample?.output) ?? newest[0] ?? null;
  // A new epoch does not replace a recording that is playing.
  return (desk.touched && newest.find((one) => one.epoch === desk.chosen)) || found;
}

/** The chosen candidate of an evaluated run, else the best except the base, else the newest. */
function selectedCandidate(list, verdict) {
  const epochs = list.filter((one) => one.kind === "epoch").sort((a, b) => b.epoch - a.epoch);
  const best = list.find((one) => one.id === verdict?.candidate && one.kind !== "base");
  const heard = desk.touched && list.find((one) => one.id === desk.chosen || (one.of && one.of.epoch === desk.chosen));
  return list.find((one) => one.id === chosen.candidate) ?? (heard || best || epochs[0] || list[0]);
}

/** Puts an epoch or a candidate on the desk. */
function choosing(one) {
  Object.assign(chosen, one);
  desk.retry();
  show();
}

/** The same, and plays it, or pauses it if it plays. */
function playing(one) {
  const [name] = Object.keys(one);
  const isThere = chosen[name] === one[name] || desk.chosen === one[name];
  choosing(one);
  if (isThere && desk.transport.playing) desk.transport.pause();
  else desk.playSoon();
}

function show() {
  const now = run();
  const isJudged = Boolean(now?.evaluation);
  showRuns(known.runs, now?.id);
  showServed(known);
  find("main").classList.toggle("judged", isJudged);
  find("main").classList.toggle("no-epochs", !now?.epochs.length);
  find("main").classList.toggle("idle", !now?.training);
  find("judged").hidden = !isJudged;
  find("epochs-scroll").hidden = isJudged;
  const epoch = isJudged ? showJudged(now) : showEpochs(now);
  if (!isJudged) for (const part of parts) part.chosen?.(null);
  const records = known.records.get(now?.id) ?? [];
  showProgress(now, records);
  curves.show(records, now?.epochs ?? [], epoch);
  voices.offerCandidates(now);
  runList.show(known, (id) => parts.map((part) => part.trainingOf?.(id)).find(Boolean) ?? null);
  const served = servedName(known);
  const alone = speakBox.alone;
  say(find("speaks-with"), alone ? `with ${alone}, not served` : served ? `with ${served}` : "");
  showSpeaker(served);
}

/** Shows a run without an evaluation: each epoch's sample and the person's recording. */
function showEpochs(now) {
  const epoch = selected();
  comparison.hide();
  epochs.show(now, epoch?.epoch ?? null, chosen);
  const newest = Math.max(...(now?.epochs ?? []).map((one) => one.epoch));
  desk.show(now?.id, epoch, Boolean(now?.training) && !epoch?.sample && epoch?.epoch === newest);
  return epoch?.epoch;
}

function showJudged(now) {
  const list = candidatesOf(now);
  const one = selectedCandidate(list, now.evaluation.verdict);
  epochs.show({ ...now, epochs: [] }, null, chosen);
  find("epochs-empty").hidden = true;
  judged.show(now, one.id, chosen);
  for (const part of parts) part.chosen?.(one);
  showVerdict(now, known, promoteCandidate);
  comparison.show(now, list, one.id, known);
  return one.of?.epoch;
}

async function refreshStatus() {
  const status = await read("/status");
  showStatus(status);
  // The list is empty while the voice is opened again; keep the choice.
  if (status.languages.length) known.languages = status.languages;
  speakBox.offer({ ...status, languages: known.languages });
  for (const part of parts) part.offer?.(known.languages);
  // The voice `default` is the served one, whose name can change. Its speakers are known once it is open.
  if (isNew(known, "shownVoice", [status.voice, status.languages.length > 0])) voices.refresh();
  known.voice = status.voice;
  show();
}

async function refreshRuns() {
  const before = new Set(heardEpochs());
  const hadAny = known.runs.length > 0;
  const { runs, served, promoted, follows } = await read("/v1/runs");
  Object.assign(known, { runs: runs ?? [], served: served ?? null, promoted, follows });
  const fresh = heardEpochs().filter((epoch) => !before.has(epoch));
  for (const part of parts) part.runs?.(known.runs);
  if (hadAny && fresh.length) announce(`Epoch ${fresh[fresh.length - 1]} is ready to play.`);
  show();
  await refreshDetails();
}

/** Loads the sentences of a run's candidates, unless they are known. */
async function refreshDetails(id = run()?.id) {
  const { evaluation } = known.runs.find((one) => one.id === id) ?? {};
  if (!evaluation || known.details.get(id)?.made_at === evaluation.made_at) return;
  known.details.set(id, await read(`${runPath(id)}/evaluation`));
  show();
}

function heardEpochs() {
  return (run()?.epochs ?? []).filter((one) => one.sample?.output).map((one) => one.epoch);
}

/** Reads the new rows of the run's metrics, or all of them if the file has become shorter. */
async function refreshMetrics() {
  const id = run()?.id;
  if (!id) return;
  const since = known.next.get(id) ?? 0;
  const { records = [], next } = await read(`${runPath(id)}/metrics?since=${since}`);
  if (next < since) {
    known.next.delete(id);
    known.records.delete(id);
    await refreshMetrics();
    return;
  }
  known.next.set(id, next);
  known.records.set(id, joined(known.records.get(id) ?? [], records));
  // A response has a limited number of rows, so a long run needs several.
  if (records.length) await refreshMetrics();
  else show();
}

async function promote(epoch) {
  const id = run().id;
  chosen.busy = epoch;
  show();
  await changeServed(() => send("POST", `${epochPath(id, epoch)}/promote`), `Epoch ${epoch} is served.`);
}

async function promoteCandidate(one) {
  chosen.busy = one.epoch;
  show();
  const path = `${runPath(run().id)}/candidates/${encodeURIComponent(one.id)}/promote`;
  await changeServed(() => send("POST", path), `${capital(candidateName(one))} is served.`);
}

async function follow() {
  const which = known.follows === "best" ? "best" : "newest epoch";
  await changeServed(() => send("DELETE", "/v1/promotion"), `The ${which} is served.`);
}

async function changeServed(act, sentence) {
  await tried("epochs-fault", act, sentence);
  chosen.busy = null;
  show();
  await attempt(refreshRuns);
  await attempt(refreshStatus);
}

/** Acts; shows an error at the top until an action succeeds. */
async function attempt(act) {
  try {
    await act();
    complain(find("fault"), null);
  } catch (error) {
    const isGone = error.status === 0;
    complain(find("fault"), isGone ? { message: "The server does not respond. Check that it is running; the page retries automatically." } : error);
    if (isGone) showConnection("lost");
  }
}

const runsSoon = calmly(() => attempt(refreshRuns), NEWS_MILLISECONDS);
const metricsSoon = calmly(() => attempt(refreshMetrics), NEWS_MILLISECONDS);
const statusSoon = calmly(() => attempt(refreshStatus), NEWS_MILLISECONDS);

function everything() {
  statusSoon();
  runsSoon();
  metricsSoon();
  partsSoon();
}

function partsSoon() {
  for (const part of parts) part.soon();
}

function heard({ event }) {
  if (event === "status") statusSoon();
  if (event === "epoch") runsSoon();
  for (const part of parts) if (part.events.includes(event)) part.soon();
  if (event === "epoch" || event === "metrics") metricsSoon();
}

function choose(id) {
  Object.assign(chosen, { run: id, epoch: null, candidate: null });
  show();
  metricsSoon();
  attempt(refreshDetails);
}

/** Shows a run, and moves the focus to where keys play it. */
function open(id) {
  choose(id);
  go("compare");
  // The view is shown at the next event.
  addEventListener("hashchange", () => find("desk").focus({ preventScroll: true }), { once: true });
  find("desk").focus({ preventScroll: true });
}

find("run").addEventListener("change", (event) => choose(event.target.value));
find("voice").addEventListener("change", show);
find("follow").addEventListener("click", follow);
// A hidden page does not follow cuts, training or books.
document.addEventListener("visibilitychange", () => document.hidden || partsSoon());

await attempt(refreshStatus);
await attempt(refreshRuns);
await attempt(refreshMetrics);
listen({
  heard,
  poll: everything,
  connected: (open) => {
    showConnection(open ? "live" : "polling");
    // Events may have been missed between two connections.
    everything();
  },
});
