// Sending a recording in pieces: it goes on after a break, also when the page was closed meanwhile.

import { datasetPath, Fault, request, send } from "./server.js";

// The server takes up to 8 MiB in a minute; a quarter of that fits a slow line too.
const PIECE_BYTES = 2 << 20;
const WAIT_MILLISECONDS = 2000;
// What passes by itself: no connection, a body that came too slowly, too many uploads at once.
const PASSING = new Set([0, 408, 502, 503, 504]);
const MOST_FAILURES = 30;

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Sends a File, from where an earlier attempt ended; resolves with the recording's row.
 * progress(row) after each piece; signal ends it, and what has arrived stays. Throws Fault.
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
      // Where it stands, as the server says; or nothing yet, while it cannot be reached.
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
