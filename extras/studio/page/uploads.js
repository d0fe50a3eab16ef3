// Uploads a recording in pieces. An interrupted upload resumes, also after the page was closed.

import { Fault, request, send } from "../server.js";
import { datasetPath } from "./paths.js";

// The server accepts 8 MiB a minute; a quarter of that suits slow connections too.
const PIECE_BYTES = 2 << 20;
const WAIT_MILLISECONDS = 2000;
// Temporary errors: no connection, a slow body, too many uploads at once.
const PASSING = new Set([0, 408, 502, 503, 504]);
const MOST_FAILURES = 30;

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Sends a File and resumes an earlier attempt; resolves with the row of the recording. progress(row): called
 * after each piece; signal: pauses it. Throws Fault.
 */
export async function sendRecording(dataset, file, progress, signal) {
  const announce = () => send("POST", `${datasetPath(dataset)}/recordings`, { name: file.name, bytes: file.size });
  if (!file.size) throw new Fault(`${file.name} is empty (0 bytes). Choose another file.`);
  let row = await announce();
  let failures = 0;
  while (!row.whole && !signal.aborted) {
    progress(row);
    try {
      row = await sendPiece(dataset, row, file, signal);
      failures = 0;
    } catch (error) {
      if (error.name === "AbortError") break;
      failures += 1;
      const goesOn = PASSING.has(error.status) || ["wrong_offset", "upload_busy"].includes(error.code);
      if (!goesOn || failures > MOST_FAILURES) throw error;
      await pause(WAIT_MILLISECONDS);
      // The server says where to resume; while it cannot be reached, try the same piece.
      row = await announce().catch((fault) => (PASSING.has(fault.status) ? row : Promise.reject(fault)));
    }
  }
  progress(row);
  return row;
}

async function sendPiece(dataset, row, file, signal) {
  const answer = await request(`${datasetPath(dataset)}/recordings/${encodeURIComponent(row.id)}`, {
    method: "PATCH",
    body: file.slice(row.received, row.received + PIECE_BYTES),
    headers: { "Upload-Offset": String(row.received), "Content-Type": "application/octet-stream" },
    signal,
  });
  return answer.json();
}
