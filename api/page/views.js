// The views of the page, one shown at a time. An address is "#/view", or "#/view/place" for one of the
// places inside a view, of which one is shown at a time, too.

import { announce, find } from "./elements.js";

/**
 * {view, place} of an address, or null if it is none. views: {view: [ids of its places]}; place: the named
 * one, else the last shown one (`last`: view -> place), else the first; null for a view without places. Pure.
 */
export function viewOf(hash, views, last = new Map()) {
  const [, view, place] = /^#\/(\w+)(?:\/([\w-]+))?$/.exec(hash) ?? [];
  const places = views[view];
  if (!places) return null;
  return { view, place: places.includes(place) ? place : last.get(view) ?? places[0] ?? null };
}

/** Shows a view as a link to it would. */
export const go = (address) => (location.hash = `#/${address}`);

/** Follows the address from now on. shown(view): called when a view has been shown. */
export function followViews(shown) {
  const boxes = [...document.querySelectorAll(".view")];
  // An extra that is not installed leaves its view empty.
  const empty = boxes.filter((box) => !box.querySelector("section"));
  const views = Object.fromEntries(boxes.filter((box) => !empty.includes(box))
    .map((box) => [box.dataset.view, [...box.querySelectorAll(".place")].map((place) => place.id)]));
  for (const { dataset } of empty) {
    for (const link of document.querySelectorAll(`a[href="#/${dataset.view}"]`)) link.closest("#index li, .row").remove();
  }
  const [last, scrolled] = [new Map(), new Map()];
  let now = null;
  const show = () => {
    const next = viewOf(location.hash, views, last) ?? viewOf("#/speak", views);
    const isNew = next.view !== now?.view;
    if (now && isNew) scrolled.set(now.view, scrollY);
    for (const box of boxes) box.hidden = box.dataset.view !== next.view;
    for (const place of document.querySelectorAll(".place")) place.hidden = place.id !== next.place;
    for (const link of document.querySelectorAll("a[href^='#/']")) {
      mark(link, link.hash === `#/${next.view}` || link.hash === `#/${next.view}/${next.place}`);
    }
    const before = now;
    [now] = [next];
    last.set(next.view, next.place);
    const name = find("index").querySelector("[aria-current]")?.textContent ?? "";
    document.title = `${name} - Sotaque`;
    if (!before) return shown(next.view);
    if (isNew) {
      announce(name);
      scrollTo(0, scrolled.get(next.view) ?? 0);
    } else if (next.place && before.place !== next.place) {
      find(next.place).focus({ preventScroll: true });
      find(next.place).scrollIntoView({ block: "nearest" });
    }
    return shown(next.view);
  };
  history.scrollRestoration = "manual"; // It comes before the view that was scrolled is shown.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    find("main").focus();
  });
  // The address of the shown view does not change, so the link leads to its top.
  find("index").addEventListener("click", ({ target }) => target.closest("a[aria-current]") && scrollTo(0, 0));
  addEventListener("hashchange", show);
  show();
}

function mark(link, isCurrent) {
  if (isCurrent) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}

/** Files dropped anywhere on a view go to its first visible file input, instead of replacing the page. */
export function takeDrops() {
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    if (event.target.matches("input[type=file]")) return;
    event.preventDefault();
    const field = [...document.querySelectorAll("[data-drops]")].find((one) => one.checkVisibility());
    if (!field || !event.dataTransfer.files.length) return;
    field.files = event.dataTransfer.files;
    field.dispatchEvent(new Event("change", { bubbles: true }));
  });
}
