// The page's pure functions, without a browser: `node --test` over a copy of api/page beside this file
// (test_scripts.py).

import assert from "node:assert/strict";
import { test } from "node:test";

import { luckOf, rivalsOf, sumOf, tally } from "./compare.js";
import { messageParts } from "./elements.js";
import { blocks, parsed } from "./events.js";
import { headlineOf as verdictOf } from "./judged.js";
import { againstBase, halfInterval } from "./judges.js";
import { curlOf, exampleOf, fieldsOf, headlineOf, operationsOf, triedAddress, typeOf } from "./operations.js";
import { runInfo } from "./runs.js";
import { addressOf, request } from "./server.js";
import { counting, endInfo, modelOf } from "./speak.js";
import { stretched } from "./stretch.js";
import { aboutRequest, outdated } from "./takes.js";
import { waysOf } from "./way.js";
import { viewOf } from "./views.js";
import { byPerson, isTaken, pageOf } from "./voices.js";
import { candidateName, clock, counted, diskSize, fileName, grouped, progressInfo, roughTime, servedName, spokenTime, timeLeft } from "./wording.js";

const each = (act, rows) => rows.forEach(([wanted, ...given]) => assert.deepEqual(act(...given), wanted, JSON.stringify(given)));

test("commands in a message are code", () => {
  const shown = (message) => messageParts(message).map(({ text, code }) => (code ? `<${text}>` : text));
  each(shown, [
    [["No trainer works on the queue. Start it with ", "<train queue>", "."], "No trainer works on the queue. Start it with `train queue`."],
    [["<a>", " and ", "<b>"], "`a` and `b`"],
    [["Nothing is code."], "Nothing is code."],
    [["A `lone mark and <b>no</b> markup."], "A `lone mark and <b>no</b> markup."],
    [["Two marks `` around nothing."], "Two marks `` around nothing."],
    [[], ""],
  ]);
});

test("a figure against the base: ▲ is better, whichever way is better", () => {
  const mark = (better, mean, low, high, base = 1) =>
    againstBase(better, { mean: base + mean, against_base: { mean, low, high } })?.mark ?? null;
  each(mark, [
    ["▲", "higher", 0.2, 0.1, 0.3],
    ["▼", "higher", -0.2, -0.3, -0.1],
    ["▲", "lower", -0.2, -0.3, -0.1],
    ["▼", "lower", 0.2, 0.1, 0.3],
    [null, "higher", 0.1, -0.1, 0.3],
    [null, "lower", 0.1, 0, 0.2],
    // The base is 10 away from 0: nearer, further away, and beyond 0.
    ["▲", "zero", -5, -6, -4, 10],
    ["▼", "zero", 5, 4, 6, 10],
    ["▲", "zero", 5, 4, 6, -10],
    ["≠", "zero", -20, -24, -16, 10],
  ]);
  assert.equal(againstBase("lower", { mean: 1 }), null);
  const words = (mean, by) => againstBase("zero", { mean, against_base: { mean: by, low: by - 2.2, high: by + 2.2 } })?.words;
  assert.deepEqual([words(-12.8, -6.7), words(-1.0, 5.1), words(6.5, 12.6), words(-7.0, -0.9)],
    ["worse than the base", "better than the base", "different from the base", undefined]);
  assert.equal(halfInterval("voice", { low: 0.5, high: 0.7 }), "±0.10");
});

test("what a phase is called", () => {
  const at = { epoch: 1, epochs: 2, step: 3, steps: 9 };
  assert.equal(progressInfo(at), "epoch 1 of 2, step 3 of 9");
  each((phase) => progressInfo({ ...at, phase }), [
    ["epoch 1 of 2, measuring the validation loss of epoch 1", "validating"],
    ["epoch 1 of 2, saving epoch 1", "saving"],
    ["epoch 1 of 2, speaking a sample of epoch 1", "sampling"],
    ["epoch 1 of 2, judging epoch 1", "judging"],
    ["epoch 1 of 2, all epochs trained; choosing the best", "concluding"],
  ]);
});

test("a run that cannot be deleted frees nothing", () => {
  const run = { epochs: [{}, {}], minutes: 3.5 };
  assert.equal(runInfo(run, "ana"), "2 epochs, 3.5 minutes of ana");
  assert.equal(runInfo(run, "ana", { bytes: 2_500_000, frees: 1_200_000, why_kept: null }),
    "2 epochs, 3.5 minutes of ana; 2.5 MB on disk, a deletion frees 1.2 MB.");
  assert.equal(runInfo({ ...run, minutes: null }, "", { bytes: 2_500_000, frees: 1_200_000, why_kept: "It is served." }),
    "2 epochs; 2.5 MB on disk.");
});

test("voices, ten people at a time", () => {
  const voices = Array.from({ length: 200 }, (_, i) => ({ id: `v${i}`, name: `Voice ${i}`, origin: "upload" }));
  voices.push({ id: "w", name: "voice 7 : Whisper", origin: "upload" });
  const persons = byPerson(voices);
  assert.equal(persons.length, 200);
  const of = (wanted, offset) => {
    const { shown, first, total } = pageOf(persons, wanted, offset);
    return [shown[0]?.person, shown.length, first, total];
  };
  assert.deepEqual(of("", 0), ["Voice 0", 10, 0, 200]);
  assert.deepEqual(of("", 10), ["Voice 10", 10, 10, 200]);
  assert.deepEqual(of("", -10), ["Voice 0", 10, 0, 200]);
  assert.deepEqual(of("", 1000), ["Voice 190", 10, 190, 200]);
  assert.deepEqual(of(" VOICE 19", 10), ["Voice 199", 1, 10, 11]);
  assert.deepEqual(of("whisper", 0), ["Voice 7", 1, 0, 1]);
  assert.deepEqual(of("nobody", 0), [undefined, 0, 0, 0]);
});

test("the length of a text is counted as the service counts it", () => {
  const told = (text) => [counting(text).told, counting(text).over > 0];
  assert.deepEqual(told(""), ["0 of 4,096 characters", false]);
  assert.deepEqual(told("a".repeat(4096)), ["4,096 of 4,096 characters", false]);
  assert.deepEqual(told("a".repeat(4097)), ["4,097 of 4,096 characters: 1 too many", true]);
  // A character outside the basic plane takes two JavaScript code units.
  assert.deepEqual(told("𝄞".repeat(4096)), ["4,096 of 4,096 characters", false]);
});

test("the voice that spoke is decoded from its header", () => {
  each((header) => modelOf(new Response(null, { headers: header === null ? {} : { "X-Model": header } })), [
    ["epoch 2 at 30% (905c8a39)", "epoch%202%20at%2030%25%20(905c8a39)"],
    ["João", "Jo%C3%A3o"],
    ["", null],
  ]);
});

test("an early end says whether anything was spoken", () => {
  each(endInfo, [
    ["Interrupted after 2.5 s.", false, 2.46, 2.46],
    ["Stopped after 0.2 s.", true, 0.2, 0.2],
    ["Nothing was spoken.", false, 0, 0],
    ["Nothing was spoken; the speech before it is still here.", false, 0, 3],
    ["Stopped; the speech before it is still here.", true, 0, 3],
  ]);
});

test("takes of one text differ by their numbers", () => {
  each(aboutRequest, [
    ["seed 7, speed 1.5", { input: "Hi.", voice: "default", speed: 1.5, seed: 7 }],
    ["seed 0, pt", { input: "Hi.", voice: "v7", language: "pt" }],
    ["seed 0, temperature 0.2", { input: "Hi.", temperature: 0.2 }],
  ]);
});

test("old takes make room, those with a star last, and the newest stays", () => {
  // Newest first; a capital has a star.
  const of = (text, bytes = 1) => [...text].map((id) => ({ id, bytes, starred: id !== id.toLowerCase() }));
  each((text, bytes, most, limit) => outdated(of(text, bytes), most, limit).join(""), [
    ["", "abc", 1, 3, 9],
    ["c", "abc", 1, 2, 9],
    ["d", "aBcd", 1, 2, 9],
    ["dc", "abcd", 5, 9, 10],
    ["dC", "aBCd", 5, 9, 12],
    ["", "a", 50, 9, 10],
  ]);
});

test("speech at another speed keeps its ends, its pitch and its level", () => {
  const tone = Float32Array.from({ length: 48000 }, (_, i) => 0.5 * Math.sin((2 * Math.PI * 200 * i) / 24000));
  const crossings = (samples) => samples.reduce((count, value, i) => count + (i > 0 && samples[i - 1] < 0 && value >= 0 ? 1 : 0), 0);
  for (const rate of [0.75, 1.25, 1.5, 2]) {
    const found = stretched(tone, rate);
    assert.equal(found.length, Math.round(tone.length / rate));
    // 200 Hz, as before.
    assert.ok(Math.abs(crossings(found) / (found.length / 24000) - 200) < 4, String(rate));
    assert.deepEqual([found[0], found[99], found.at(-1)], [tone[0], tone[99], tone.at(-1)]);
    const level = Math.sqrt(found.reduce((sum, value) => sum + value * value, 0) / found.length);
    assert.ok(Math.abs(level - 0.3535) < 0.01, `${rate}: ${level}`);
  }
  assert.equal(stretched(tone, 1), tone);
  assert.equal(stretched(tone.subarray(0, 1000), 2).length, 1000);
});

test("the service may lie below a path of its host", async () => {
  each(addressOf, [
    ["https://here/tts/v1/models", "/v1/models", "https://here/tts/"],
    ["https://here/tts/openapi.json", "openapi.json", "https://here/tts/docs"],
    ["http://here:8005/v1/models?a=b", "/v1/models?a=b", "http://here:8005/#speak"],
    ["https://here/tts/", "", "https://here/tts/#speak"],
  ]);
  Object.assign(globalThis, { document: { baseURI: "https://here/tts/" }, sessionStorage: { getItem: () => null }, localStorage: { getItem: () => null } });
  const asked = [];
  globalThis.fetch = async (address) => {
    asked.push(address);
    return new Response("{}");
  };
  await request("/v1/audio/speech");
  assert.deepEqual(asked, ["https://here/tts/v1/audio/speech"]);
});

test("an address is a view and a place in it", () => {
  const views = { speak: [], train: ["reading", "trains"] };
  each((hash, last) => viewOf(hash, views, new Map(last)), [
    [{ view: "speak", place: null }, "#/speak"],
    [{ view: "train", place: "reading" }, "#/train"],
    [{ view: "train", place: "trains" }, "#/train/trains"],
    [{ view: "train", place: "trains" }, "#/train", [["train", "trains"]]],
    [{ view: "train", place: "reading" }, "#/train/nowhere"],
    [null, "#/books"],
    [null, "#main"],
    [null, ""],
  ]);
});

test("the served voice is called by its run", () => {
  const runs = [{ id: "current", kind: "current" }, { id: "ana", kind: "named" }];
  each(servedName, [
    ["ana, epoch 2", { served: { run: "ana", epoch: 2, candidate: "epoch_2" }, runs }],
    ["epoch 2 at 30%", { served: { run: "current", epoch: 2, candidate: "epoch_2_share_0.3" }, runs }],
    ["demo", { served: null, runs, voice: "demo (905c8a39)" }],
    ["", { served: null, runs }],
  ]);
});

test("times, sizes, counts and names", () => {
  each(clock, [["0:04.2", 4.2], ["1:00.0", 59.96], ["1:00:04.2", 3604.2], ["–", -1], ["–", NaN], ["2:03", 123, 0]]);
  each(spokenTime, [["4.2 seconds", 4.2], ["1 second", 1], ["1 minute 4 seconds", 64], ["unknown", NaN]]);
  each(roughTime, [["less than a minute", 20], ["about 59 min", 3540], ["about 2 h 1 min", 7260]]);
  each(timeLeft, [["no estimate yet", NaN], ["less than a minute left", 20], ["about 59 min left", 3540], ["about 2 h 1 min left", 7260]]);
  each(diskSize, [["1 kB", 1], ["850 kB", 850_000], ["12.3 MB", 12_300_000], ["1.24 GB", 1_240_000_000]]);
  each(counted, [["0 clips", 0, "clip"], ["1 clip", 1, "clip"], ["2 clips", 2, "clip"]]);
  each(grouped, [["0", 0], ["999", 999], ["4,096", 4096], ["1,234,567", 1234567]]);
  each(candidateName, [["the base", { id: "base" }], ["epoch 3 at 50%", { id: "epoch_3_share_0.5", epoch: 3 }],
    ["epoch 1 of ana", { candidate: "epoch_1", epoch: 1, of_run: "ana" }]]);
  each(fileName, [["a_b-c.wav", "a", "b c.wav"]]);
});

test("event streams", async () => {
  each(parsed, [[{ event: "epoch", data: "{}" }, "event: epoch\ndata: {}"], [{ event: "message", data: "a\nb" }, "data: a\ndata: b"], [null, ": still here"]]);
  const pieces = ["data: a\r\n\r\nda", "ta: b\n\n: c"];
  const read = async () => ({ value: pieces[0], done: pieces.shift() === undefined });
  const found = [];
  for await (const block of blocks(read)) found.push(block);
  assert.deepEqual(found, ["data: a", "data: b"]);
});

test("the rivals of a run", () => {
  const run = (id, language, best) => ({ id, kind: "named", evaluation: { language, made_at: "", candidates: [{ id: "epoch_1", epoch: 1, is_best: best }] } });
  const rivals = rivalsOf(run("ana", "en", true), [run("ana", "en", true), run("ben", "en", true), run("eva", "de", true), run("dan", "en", false)]);
  assert.deepEqual(rivals.map((one) => one.id), ["ben/epoch_1"]);
});

test("votes are counted for a pair in either order", () => {
  const [base, one] = [{ id: "base", name: "the base" }, { id: "epoch_1", name: "epoch 1" }];
  const notes = [{ a: one, b: base, preferred: "a" }, { a: base, b: one, preferred: "b" }, { a: base, b: one, preferred: "a" }, { a: one, b: base, preferred: null }];
  assert.deepEqual(tally(notes), ["Epoch 1 against the base: better in 2 sentences, worse in 1, no difference in 1."]);
});

test("the sum of a blind test, and how easily luck gives it", () => {
  // By R: binom.test(8, 11)$p.value and so on.
  each((a, b) => Number(luckOf(a, b).toFixed(4)), [[0.2266, 8, 3], [0.25, 3, 0], [1, 2, 2], [0.0005, 12, 0], [1, 0, 0]]);
  const [base, one] = [{ id: "base", name: "the base" }, { id: "epoch_1", name: "epoch 1" }];
  const votes = (...all) => all.map((preferred) => ({ a: one, b: base, preferred }));
  each(sumOf, [
    ["Epoch 1 is preferred 2 : 1, no difference once. Guessing gives such a result in 100 % of tests: it may be luck.", votes("a", "a", "b", null)],
    ["The base is preferred 7 : 0. Guessing gives such a result in 2 % of tests.", votes(..."bbbbbbb")],
    ["As often the one as the other (1 : 1).", votes("a", "b")],
  ]);
});

test("a verdict is a sentence, and why", () => {
  each(verdictOf, [
    [["Epoch 2 is the best.", "Voice 0.76 (base 0.33). The cost: none."], "Epoch 2 is the best. Voice 0.76 (base 0.33). The cost: none."],
    [["Epoch 2 is the best: nearer (0.7, base 0.3).", ""], "Epoch 2 is the best: nearer (0.7, base 0.3)."],
    [["None", ""], "None"],
  ]);
});

test("the way from the base to the person", () => {
  const of = (voice, pitch, words, against = {}) => ({ judges: {
    voice: { mean: voice, against_base: against.voice }, pitch_drift_percent: { mean: pitch, against_base: against.pitch }, words: { mean: words },
  } });
  const judges = { voice: { better: "higher" }, pitch_drift_percent: { better: "zero" }, words: { better: "higher" } };
  const base = of(0.2, -10, 0.99);
  const gap = (mean) => ({ mean, low: mean - 0.01, high: mean + 0.01 });
  const found = waysOf(of(0.6, 20, 0.5, { voice: gap(0.4), pitch: gap(30) }), base, judges);
  assert.deepEqual(found.map(({ what, share, words }) => [what, share && Number(share.toFixed(2)), words]), [
    ["Voice", 0.5, "50 % of the way"],
    ["Words", null, "the base is there already"],
    ["Pitch", -1, "further away than the base"],
  ]);
  assert.deepEqual(waysOf(base, base, judges)[0].words, "here it begins");
  assert.equal(waysOf(of(0.3, 0, 1), base, judges)[0].words, "no measurable difference from the base");
});

test("a name is taken as the list shows it", () => {
  const voices = [{ id: "default", name: "Anna " }, { id: "v7" }];
  each((name) => isTaken(name, voices), [[true, "anna"], [true, " V7"], [false, "ann"]]);
});

const DOCS = {
  components: {
    schemas: {
      Speech: {
        properties: {
          input: { type: "string", maxLength: 9, description: "The text." },
          speed: { anyOf: [{ type: "number", minimum: 0.25, maximum: 4 }, { type: "null" }], default: 1 },
          format: { type: "string", enum: ["wav", "mp3"] },
          parts: { type: "array", items: { $ref: "#/components/schemas/Part" } },
        },
        required: ["input"],
      },
      Part: { properties: { at: { type: "integer" }, of: { $ref: "#/components/schemas/Part" } } },
    },
  },
  paths: {
    "/speech": { post: { tags: ["speech"], summary: "Speak", requestBody: { content: { "application/json": { schema: { $ref: "#/components/schemas/Speech" } } } }, responses: { 200: { content: { "audio/wav": {} } }, 400: {} } } },
    "/voices": { get: { tags: ["voices"], summary: "List", parameters: [{ name: "limit", in: "query", schema: { type: "integer", minimum: 1 } }], responses: { 200: { content: { "application/json": { schema: { $ref: "#/components/schemas/Part" } } } } } },
      post: { tags: ["voices"], requestBody: { content: { "multipart/form-data": { schema: { properties: { file: { type: "array", items: { type: "string", format: "binary" } }, name: { type: "string" } }, required: ["file", "name"] } } } }, responses: {} } },
  },
};
const SPEECH = { $ref: "#/components/schemas/Speech" };

test("the reference says what a field may be", () => {
  each((schema) => typeOf(schema, DOCS), [
    ["number from 0.25 to 4", { anyOf: [{ type: "number", minimum: 0.25, maximum: 4 }, { type: "null" }] }],
    ['"wav", "mp3"', { type: "string", enum: ["wav", "mp3"] }],
    ["text, at most 9 characters", { type: "string", maxLength: 9 }],
    ["list of file", { type: "array", items: { type: "string", format: "binary" } }],
    ["object", SPEECH],
    ["any value", {}],
  ]);
  assert.deepEqual(fieldsOf(SPEECH, DOCS)[0], { name: "input", type: "text, at most 9 characters", needed: true, text: "The text." });
});

test("the reference groups the operations and shows requests that work", () => {
  const [[speech, [speak]], [voices, [list, add]]] = operationsOf(DOCS);
  assert.deepEqual([speech, voices], ["speech", "voices"]);
  assert.deepEqual([speak.method, speak.path, speak.title, speak.answer.format], ["POST", "/speech", "Speak", "audio/wav"]);
  assert.deepEqual(list.fields, [{ name: "limit (query)", type: "whole number from 1", needed: false, text: "" }]);
  const flat = (one) => curlOf(one, "http://here", DOCS).replace(/ \\\n +/g, " ");
  assert.equal(flat(speak), `curl -X POST http://here/speech -H 'Content-Type: application/json' -d '{"input":"text"}'`);
  assert.equal(flat(list), "curl http://here/voices");
  assert.equal(flat(add), "curl -X POST http://here/voices -F file=@FILE -F name=text");
});

test("a title is a sentence, and a request is tried with its values", () => {
  each(headlineOf, [
    [["Speaks a text", "Streams it."], "Speaks a\ntext. Streams it."],
    [["Reads v1.2 of it", ""], "Reads v1.2 of it."],
    [["", ""], ""],
  ]);
  const fields = ["voice (path)", "limit (query)", "since (query)"].map((name) => ({ name }));
  assert.equal(triedAddress({ path: "/v1/{voice}/x", fields }, { "voice (path)": "a b", "limit (query)": "2", "since (query)": "" }), "/v1/a%20b/x?limit=2");
});

test("an example ends, even if an object holds itself", () => {
  assert.deepEqual(exampleOf({ $ref: "#/components/schemas/Part" }, DOCS), { at: 1, of: { at: 1, of: { at: 1, of: {} } } });
  assert.deepEqual(exampleOf(SPEECH, DOCS).speed, 1);
});
