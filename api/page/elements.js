// Helpers for elements, for every part of the page. Data becomes only text and attributes: nothing here
// parses markup.

const SVG = "http://www.w3.org/2000/svg";

/** make("p", { class: "note", text: reason }, child, …). `on…` adds a listener; false omits an attribute. */
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

/** Sets the text only if it changes, so that a live region announces only changes. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A message of the service as parts; text between backticks is code. Pure. */
export function messageParts(message) {
  // split() with a group puts the captured parts at odd positions.
  return String(message).split(/`([^`]+)`/).map((text, i) => ({ text, code: i % 2 === 1 })).filter(({ text }) => text);
}

const written = ({ text, code }) => (code ? make("code", { text }) : text);

/** As `say`, for a message of the service: shows its commands and names as code. */
export function tell(element, message) {
  const parts = messageParts(message ?? "");
  if (element.textContent !== parts.map(({ text }) => text).join("")) element.replaceChildren(...parts.map(written));
}

/** Announces a sentence to screen readers. */
export function announce(sentence) {
  say(find("announcement"), sentence);
}

/** Shows the message of an error in `element` (role=alert), or clears it. */
export function complain(element, error) {
  tell(element, error ? error.message : "");
  element.hidden = !error;
  delete element.dataset.refresh;
}

/** Shows why a refresh failed; without an error, takes back only what a refresh has shown. */
export function complainOfRefresh(element, error) {
  if (!error && !element.dataset.refresh) return;
  complain(element, error);
  if (error) element.dataset.refresh = "failed";
}

/**
 * Acts, then announces the sentence, which may be a function of the answer. Shows an error in the element
 * with the id `fault`. Returns the answer, {} if it is empty, and null after an error.
 */
export async function tried(fault, act, sentence = "") {
  try {
    const answer = (await act()) ?? {};
    complain(find(fault), null);
    if (sentence) announce(typeof sentence === "function" ? sentence(answer) : sentence);
    return answer;
  } catch (error) {
    complain(find(fault), error);
    return null;
  }
}

/** A small button; beside: additional text for screen readers. */
export function smallButton(text, { beside = "", ...given } = {}) {
  return make("button", { type: "button", class: "plain small", text, "aria-label": beside ? `${text} ${beside}` : null, ...given });
}

/** Changes the text of a button; beside: additional text for screen readers. */
export function relabel(button, text, beside = "") {
  say(button, text);
  if (beside) button.setAttribute("aria-label", `${text} ${beside}`);
}

/** A button that needs a second press to confirm. */
export function twice(button, label, act, { of = "" } = {}) {
  const calm = () => {
    delete button.dataset.sure;
    relabel(button, label, of);
  };
  calm();
  button.addEventListener("blur", calm);
  button.addEventListener("click", () => {
    if (button.dataset.sure) {
      calm();
      act();
      return;
    }
    button.dataset.sure = "yes";
    relabel(button, `Confirm: ${label.toLowerCase()}`, of);
  });
  return button;
}

/** A button "…" that opens these buttons; of: the thing they are about. A press, Escape, or a leave closes it. */
export function menu(of, ...buttons) {
  const box = make("details", { class: "menu" }, make("summary", { "aria-label": `More for ${of}`, text: "…" }), make("div", { class: "menu-box" }, ...buttons));
  box.addEventListener("click", (event) => {
    // A button that asks first stays.
    const pressed = event.target.closest("button");
    if (pressed && !pressed.dataset.sure) box.open = false;
  });
  box.addEventListener("focusout", (event) => box.contains(event.relatedTarget) || !event.relatedTarget || (box.open = false));
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.open) return;
    box.open = false;
    box.firstChild.focus();
  });
  return box;
}

/** Closes open menus, and what the status means, at a press outside them, from now on. */
export function closeMenus() {
  document.addEventListener("pointerdown", (event) => {
    for (const box of document.querySelectorAll(":is(.menu, #about)[open]")) if (!box.contains(event.target)) box.open = false;
  });
}

/**
 * Fills a select if its list has changed, and keeps its choice. list: [{value, text}]; wanted: the default;
 * picked: whether the person made the current choice.
 */
export function options(select, list, wanted, picked = true) {
  if (!isNew(select.dataset, "shown", list.map(({ value, text }) => [value, text]))) return;
  const before = select.value;
  // A reset of the form also restores `selected`.
  select.replaceChildren(...list.map(({ value, text }) => make("option", { value, text, selected: value === wanted })));
  const has = (one) => list.some(({ value }) => value === one);
  select.value = [picked ? before : null, wanted, before, list[0]?.value].find(has) ?? "";
}

/** A row of a table: its heading, then figures. */
export function figuresRow(heading, ...figures) {
  return make("tr", {}, make("th", { scope: "row", text: heading }), ...figures.map((text) => make("td", { class: "number", text })));
}

/** The same for a table that becomes cards; figures: [column, figure]. The roles keep it a table there. */
export function cardRow(heading, ...figures) {
  return make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader", text: heading }),
    ...figures.map(([column, text]) => make("td", { class: "number", role: "cell", "data-label": column, text })));
}

/** A paragraph with a name and a line about it. */
export function entry(name, about, ...more) {
  return make("p", {}, make("span", { class: "name", text: name }), make("span", { class: "quiet" }, ...messageParts(about ?? "").map(written)), ...more);
}

/** Whether a value has changed since the last call; `holder[name]` remembers it. */
export function isNew(holder, name, value) {
  const text = JSON.stringify(value);
  if (holder[name] === text) return false;
  holder[name] = text;
  return true;
}

/** Redraws when the size of the element or the colours change. */
export function redraws(element, draw) {
  new ResizeObserver(draw).observe(element);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

/** Handles Ctrl+Enter in a text field. */
export const sends = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey);

/** Reuses the elements of rows that move, which keeps the focus inside them. */
export function fillRows(body, rows) {
  rows.forEach((row, i) => body.rows[i] !== row && body.insertBefore(row, body.rows[i] ?? null));
  while (body.rows.length > rows.length) body.lastElementChild.remove();
}

/** A list in local storage; empty if it is missing or damaged. */
export function stored(key) {
  try {
    const found = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

/** Writes a list to local storage, or removes an empty one; false if the browser refuses. */
export function store(key, list) {
  try {
    if (list.length) localStorage.setItem(key, JSON.stringify(list));
    else localStorage.removeItem(key);
    return true;
  } catch {
    return false;
  }
}

/** Limits calls to one per `milliseconds`; the last call is never lost. */
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
