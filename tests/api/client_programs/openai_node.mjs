// openai (npm): complete and streamed.
import fs from "node:fs/promises";
import path from "node:path";
import OpenAI from "openai";

const [address, , text, folder] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "none" });
for (const form of ["wav", "mp3", "pcm"]) {
  const answer = await client.audio.speech.create({ model: "tts-1", voice: "alloy", input: text, response_format: form });
  await fs.writeFile(path.join(folder, `whole.${form}`), Buffer.from(await answer.arrayBuffer()));
}
const parts = [];
const streamed = await client.audio.speech.create({ model: "tts-1", voice: "alloy", input: text, response_format: "pcm" });
for await (const part of streamed.body) parts.push(part);
await fs.writeFile(path.join(folder, "streamed.pcm"), Buffer.concat(parts));
