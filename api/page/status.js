// The strip at the top: what runs where, and why there.

import { find, say } from "./elements.js";
import { counted, device } from "./wording.js";

const STATES = {
  starting: "Starting",
  ready: "Ready",
  restarting: "Restarting",
  degraded: "Ready, but not as asked",
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
  say(message, isFault ? status.message : "");
  message.hidden = !isFault;
  say(find("why"), isFault ? "" : status.message ?? "");
  say(find("voice-why"), status.voice_reason ?? "");
  say(find("licence"), status.licence ? `Voice licence: ${status.licence}` : "");
  say(find("version"), status.version ? `Sotaque ${status.version}` : "");
}

// A service that does what was asked of it, on an ordinary CPU too, has nothing to be warned of; and
// one that starts for the first time is not a fault either.
function isWrong(state, { message, reason_code: code }) {
  return Boolean(message) && state !== "ready" && (state !== "starting" || !["", "starting"].includes(code ?? ""));
}

/** Whether news come as they happen, are asked for now and then, or do not come. */
export function showConnection(kind) {
  const words = { live: "Live", polling: "Asking every 3 s", lost: "" };
  say(find("live"), words[kind]);
  if (kind === "lost") {
    find("status").dataset.state = "lost";
    say(find("state"), "No answer");
  }
}

function provider({ execution_provider: actual, requested_provider: asked, precision }) {
  if (!actual || actual === "none") return "none yet";
  const exactly = precision ? `${actual}, ${precision}` : actual;
  return asked && asked !== actual && !/auto/.test(asked) ? `${exactly}; asked for ${asked}` : exactly;
}

function queue(found) {
  if (!found) return "–";
  const { waiting = 0, slots, speaking = 0 } = found;
  if (!waiting && !speaking) return "none";
  const busy = slots ? `${speaking} of ${slots} speaking` : `${speaking} speaking`;
  return waiting ? `${busy}, ${counted(waiting, "request")} waiting` : busy;
}
