// The index of the sections, which marks the visible one.

import { find } from "./elements.js";

// A section whose top is above this share of the screen counts as visible.
const READ_SHARE = 0.35;

/** The id of the last section whose top is above `line`, else of the first. sections: [{id, top}] in order. Pure. */
export function sectionAt(sections, line) {
  return (sections.findLast(({ top }) => top <= line) ?? sections[0])?.id ?? null;
}

export function followSections() {
  const links = [...find("index").querySelectorAll("a")];
  // The section whose link was followed, until the person scrolls: near the end it cannot reach the top.
  let chosen = null;
  const show = () => {
    const shown = links.filter((link) => !link.hidden && !link.parentElement.hidden);
    const tops = shown.map((link) => ({ id: link.hash.slice(1), top: find(link.hash.slice(1)).getBoundingClientRect().top }));
    // The last sections of the page may never reach the line.
    const atEnd = scrollY > 0 && innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const isSeen = ({ id, top }) => id === chosen && top >= 0 && top < innerHeight;
    const current = tops.find(isSeen)?.id ?? sectionAt(tops, atEnd ? innerHeight : innerHeight * READ_SHARE);
    for (const link of links) mark(link, link.hash === `#${current}`);
  };
  let waiting = null;
  const soon = () => {
    waiting ??= requestAnimationFrame(() => {
      waiting = null;
      show();
    });
  };
  find("index").addEventListener("click", (event) => {
    chosen = event.target.closest("a")?.hash.slice(1) ?? null;
    soon();
  });
  for (const scrolls of ["wheel", "touchmove"]) addEventListener(scrolls, () => (chosen = null), { passive: true });
  addEventListener("scroll", soon, { passive: true });
  new ResizeObserver(soon).observe(document.body);
  show();
}

function mark(link, isCurrent) {
  if (isCurrent === link.hasAttribute("aria-current")) return;
  if (!isCurrent) return link.removeAttribute("aria-current");
  link.setAttribute("aria-current", "true");
  // Scrolls only sideways: scrollIntoView would also move the page.
  const list = link.closest("ul");
  const [box, place] = [link.getBoundingClientRect(), list.getBoundingClientRect()];
  if (box.left < place.left || box.right > place.right) list.scrollLeft += box.left - place.left - (place.width - box.width) / 2;
  return undefined;
}
