// Vercel's AI SDK (npm: ai, @ai-sdk/openai): generateSpeech.
import fs from "node:fs/promises";
import path from "node:path";
import { createOpenAI } from "@ai-sdk/openai";
import * as ai from "ai";

const generate = ai.generateSpeech ?? ai.experimental_generateSpeech;
const [address, , text, folder] = process.argv.slice(2);
const openai = createOpenAI({ baseURL: `${address}/v1`, apiKey: "none" });
for (const form of ["wav", "mp3"]) {
  const { audio } = await generate({ model: openai.speech("tts-1"), text, voice: "alloy", outputFormat: form });
  await fs.writeFile(path.join(folder, `whole.${form}`), audio.uint8Array);
}
