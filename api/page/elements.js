// Making elements. Data becomes text and attributes only: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

/** make("p", { class: "note", text: reason }, child, …); `on…` are listeners, false is left out. */
export function make(name, given = {}, ...children) {
  return fill(document.createElement(name), given, children);
}

export function svg(name, given = {}, ...children) {
  return fill(document.createElementNS(SVG, name), given, children);
}

function fill(element, given, children) {
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const find = (id) => document.getElementById(id);

/** Sets the text only where it changes: a live region then speaks only of what is new. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A sentence for a screen reader, when something happened that no focus is at. */
export function announce(sentence) {
  say(find("announcement"), sentence);
}

/** Shows a fault's sentence in `element` (role=alert), or clears it. */
export function complain(element, error) {
  say(element, error ? error.message : "");
  element.hidden = !error;
}

/** At most once in `milliseconds`, and once more after the last call. */
export function calmly(act, milliseconds) {
  let waiting = null;
  let again = false;
  const run = () => {
    waiting = null;
    if (again) {
      again = false;
      waiting = setTimeout(run, milliseconds);
      act();
    }
  };
  return () => {
    if (waiting !== null) {
      again = true;
      return;
    }
    waiting = setTimeout(run, milliseconds);
    act();
  };
}
