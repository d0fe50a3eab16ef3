// Asks for the API key in a dialog; `server.js` keeps it for this tab.

import { complain, find } from "./elements.js";

const WRONG = "The server does not take this key. Look for a missing or doubled character. Whoever runs the server finds it as API_KEY in its settings (.env).";
const UNSENDABLE = "This key has characters that no API key has: only letters, digits and signs of ASCII can be sent.";

/** refused: whether the last key was. Resolves with a key. */
export function askForKey(refused) {
  const dialog = find("key-dialog");
  const field = find("key");
  complain(find("key-fault"), refused ? { message: WRONG } : null);
  field.value = "";
  if (!dialog.open) dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    // Without a key nothing of the page works: Escape brings the question back.
    const closed = () => {
      const key = field.value.trim();
      if (key && !/^[ -~]+$/.test(key)) complain(find("key-fault"), { message: UNSENDABLE });
      if (!/^[ -~]+$/.test(key)) return void dialog.showModal();
      dialog.removeEventListener("close", closed);
      resolve(key);
    };
    dialog.addEventListener("close", closed);
  });
}
