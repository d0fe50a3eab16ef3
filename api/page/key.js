// Asks for the API key in a dialog; `server.js` keeps it for this tab.

import { complain, find } from "./elements.js";

/** why: what the server said of the last key, or "". Resolves with a key. */
export function askForKey(why) {
  const dialog = find("key-dialog");
  const field = find("key");
  complain(find("key-fault"), why ? { message: why } : null);
  field.value = "";
  if (!dialog.open) dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    // Without a key nothing of the page works: Escape brings the question back.
    const closed = () => {
      if (!field.value) return void dialog.showModal();
      dialog.removeEventListener("close", closed);
      resolve(field.value);
    };
    dialog.addEventListener("close", closed);
  });
}
