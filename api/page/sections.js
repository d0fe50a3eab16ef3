// The index of the sections, which marks the one on the screen.

import { find } from "./elements.js";

// What lies above this share of the screen is being read.
const READ_SHARE = 0.35;

/** The id of the last section whose top is above `line`, or the first. sections: [{id, top}] in their order. Pure. */
export function sectionAt(sections, line) {
  return (sections.findLast(({ top }) => top <= line) ?? sections[0])?.id ?? null;
}

export function followSections() {
  const links = [...find("index").querySelectorAll("a")];
  // The one that was gone to, which at the end of the page is not at its top, until the person scrolls.
  let chosen = null;
  const show = () => {
    const shown = links.filter((link) => !link.hidden && !link.parentElement.hidden);
    const tops = shown.map((link) => ({ id: link.hash.slice(1), top: find(link.hash.slice(1)).getBoundingClientRect().top }));
    // The last sections of a page may not reach the line.
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
  // Sideways only: scrollIntoView would also move the page.
  const list = link.closest("ul");
  const [box, place] = [link.getBoundingClientRect(), list.getBoundingClientRect()];
  if (box.left < place.left || box.right > place.right) list.scrollLeft += box.left - place.left - (place.width - box.width) / 2;
  return undefined;
}
