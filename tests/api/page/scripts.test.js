// The page's pure functions, without a browser: `node --test` over a copy of api/page beside this file
// (test_scripts.py).

import assert from "node:assert/strict";
import { test } from "node:test";

import { rivalsOf, tally } from "./compare.js";
import { messageParts } from "./elements.js";
import { blocks, parsed } from "./events.js";
import { aboutRequest } from "./history.js";
import { againstBase, halfInterval } from "./judges.js";
import { curlOf, exampleOf, fieldsOf, operationsOf, typeOf } from "./operations.js";
import { runInfo } from "./runs.js";
import { sectionAt } from "./sections.js";
import { addressOf, request } from "./server.js";
import { counting, endInfo, modelOf } from "./speak.js";
import { byPerson, pageOf } from "./voices.js";
import { candidateName, clock, counted, diskSize, fileName, progressInfo, roughTime, spokenTime, timeLeft } from "./wording.js";

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

test("entries of the history for one text differ by what was chosen", () => {
  each(aboutRequest, [
    ["Epoch 3, speed 1.5, seed 7", { input: "Hi.", voice: "/v1/runs/ana/candidates/epoch_3/speech", who: "Epoch 3", speed: 1.5, seed: 7 }],
    ["v7, language pt", { input: "Hi.", voice: "v7", language: "pt" }],
    // Of a former version of the page.
    ["default", { input: "Hi.", voice: "default" }],
  ]);
});

test("the service may lie below a path of its host", async () => {
  each(addressOf, [
    ["https://here/tts/v1/models", "/v1/models", "https://here/tts/"],
    ["https://here/tts/openapi.json", "openapi.json", "https://here/tts/docs"],
    ["http://here:8005/v1/models?a=b", "/v1/models?a=b", "http://here:8005/#speak"],
    ["https://here/tts/", "", "https://here/tts/#speak"],
  ]);
  Object.assign(globalThis, { document: { baseURI: "https://here/tts/" }, sessionStorage: { getItem: () => null } });
  const asked = [];
  globalThis.fetch = async (address) => {
    asked.push(address);
    return new Response("{}");
  };
  await request("/v1/audio/speech");
  assert.deepEqual(asked, ["https://here/tts/v1/audio/speech"]);
});

test("the section on the screen", () => {
  const sections = [{ id: "a", top: -500 }, { id: "b", top: 200 }, { id: "c", top: 900 }];
  each((line) => sectionAt(sections, line), [["a", 199], ["b", 200], ["c", 1000], ["a", -900]]);
  assert.equal(sectionAt([], 0), null);
});

test("times, sizes, counts and names", () => {
  each(clock, [["0:04.2", 4.2], ["1:00.0", 59.96], ["1:00:04.2", 3604.2], ["–", -1], ["–", NaN], ["2:03", 123, 0]]);
  each(spokenTime, [["4.2 seconds", 4.2], ["1 second", 1], ["1 minute 4 seconds", 64], ["unknown", NaN]]);
  each(roughTime, [["less than a minute", 20], ["about 59 min", 3540], ["about 2 h 1 min", 7260]]);
  each(timeLeft, [["no estimate yet", NaN], ["less than a minute left", 20], ["about 59 min left", 3540], ["about 2 h 1 min left", 7260]]);
  each(diskSize, [["1 kB", 1], ["850 kB", 850_000], ["12.3 MB", 12_300_000], ["1.24 GB", 1_240_000_000]]);
  each(counted, [["0 clips", 0, "clip"], ["1 clip", 1, "clip"], ["2 clips", 2, "clip"]]);
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

test("an example ends, even if an object holds itself", () => {
  assert.deepEqual(exampleOf({ $ref: "#/components/schemas/Part" }, DOCS), { at: 1, of: { at: 1, of: { at: 1, of: {} } } });
  assert.deepEqual(exampleOf(SPEECH, DOCS).speed, 1);
});
