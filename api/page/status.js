// The status at the top: voice and device, and when it is open, the provider and the requests, too.

import { find, say, tell } from "./elements.js";
import { counted, device } from "./wording.js";

const STATES = {
  starting: "Starting",
  ready: "Ready",
  restarting: "Restarting",
  degraded: "Ready, not as configured",
};

/** status: the body of GET /status. */
export function showStatus(status) {
  const state = status.state ?? (status.ready ? "ready" : "starting");
  find("status").dataset.state = state;
  say(find("state"), STATES[state] ?? state);
  say(find("fact-device"), device(status.device));
  say(find("fact-provider"), provider(status));
  say(find("fact-voice"), status.voice || "none yet");
  say(find("fact-queue"), queue(status.queue));
  const message = find("message");
  const isFault = isWrong(state, status);
  tell(message, isFault ? status.message : "");
  message.hidden = !isFault;
  tell(find("why"), isFault ? "" : status.message ?? "");
  tell(find("voice-why"), status.voice_reason ?? "");
  say(find("licence"), status.licence ? `Voice licence: ${status.licence}` : "");
  say(find("version"), status.version ? `Sotaque ${status.version}` : "");
}

/** voice: the name of what speaks, "" if nothing does yet. */
export function showSpeaker(voice) {
  const where = find("fact-device").textContent;
  find("speaker").dataset.voice = voice.charAt(0).toUpperCase() + voice.slice(1);
  const isKnown = voice && !["–", "none yet"].includes(voice) && !["–", "none yet"].includes(where);
  say(find("speaker"), isKnown ? `speaks with ${voice}, on ${where === "CPU" ? "the CPU" : `the ${where}`}` : "");
}

// No warning while the service starts for the first time, or runs as configured, even on a CPU.
function isWrong(state, { message, reason_code: code }) {
  return Boolean(message) && state !== "ready" && (state !== "starting" || !["", "starting"].includes(code ?? ""));
}

/** Shows whether updates arrive live, by polling, or not at all. */
export function showConnection(kind) {
  const words = { live: "Live", polling: "Updates every 3 s", lost: "" };
  say(find("live"), words[kind]);
  if (kind === "lost") {
    find("status").dataset.state = "lost";
    say(find("state"), "Not responding");
  }
}

function provider({ execution_provider: actual, requested_provider: asked, precision }) {
  if (!actual || actual === "none") return "none yet";
  const exactly = precision ? `${actual}, ${precision}` : actual;
  return asked && asked !== actual && !/auto/.test(asked) ? `${exactly} (requested: ${asked})` : exactly;
}

function queue(found) {
  if (!found) return "–";
  const { waiting = 0, slots, speaking = 0 } = found;
  if (!waiting && !speaking) return "none";
  const busy = slots ? `${speaking} of ${slots} speaking` : `${speaking} speaking`;
  return waiting ? `${busy}, ${waiting} waiting` : busy;
}
