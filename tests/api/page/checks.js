// Checks the accessibility of the page in its current state: one sentence for each fault.
() => {
  const faults = [];
  const visible = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: false });
  const name = (element) =>
    element.getAttribute("aria-label") ||
    (element.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ").trim() ||
    [...(element.labels ?? [])].map((label) => label.textContent.trim()).join(" ") ||
    (element.matches("button, a, summary") ? element.textContent.trim() : "");
  const what = (element) => `<${element.localName} id=${element.id} class=${element.getAttribute("class")}>`;

  for (const element of document.querySelectorAll("button, a, input, select, textarea, summary, canvas[role=img], svg[role=img], section, dialog, [role=region]")) {
    if (visible(element) && !name(element)) faults.push(`${what(element)} has no name`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => faults.push(`the id ${id} stands twice`));
  for (const element of document.querySelectorAll("[for], [aria-labelledby], [aria-describedby]")) {
    const wanted = ["for", "aria-labelledby", "aria-describedby"].flatMap((a) => (element.getAttribute(a) ?? "").split(" ")).filter(Boolean);
    wanted.filter((id) => !document.getElementById(id)).forEach((id) => faults.push(`${what(element)} names ${id}, which is not there`));
  }
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    if (!visible(heading)) continue;
    const here = Number(heading.localName[1]);
    if (here > level + 1) faults.push(`${heading.textContent} skips from level ${level} to ${here}`);
    level = here;
  }
  if (document.querySelectorAll("h1").length !== 1) faults.push("there is not exactly one h1");
  if (!document.documentElement.lang) faults.push("the page names no language");
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption) faults.push("a table has no caption");
    if (table.querySelector("thead th:not([scope])")) faults.push("a heading of a table has no scope");
  }
  if (document.querySelector("[tabindex]:not([tabindex='0'], [tabindex='-1'])")) faults.push("a tabindex above 0");

  // Contrast, WCAG 2.1: 4.5 for text, 3 for large text and for the edge of a control.
  const channels = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
  const over = (top, under) => {
    const alpha = top[3] ?? 1;
    return [0, 1, 2].map((i) => top[i] * alpha + under[i] * (1 - alpha));
  };
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(channels(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  let texts = 0;
  for (const element of document.querySelectorAll("body *")) {
    const style = getComputedStyle(element);
    if (!visible(element) || element.matches(":disabled, .hidden, option")) continue;
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (own) {
      texts += 1;
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      const colour = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
      const found = ratio(over(channels(colour), ground(element)), ground(element));
      if (found < (large ? 3 : 4.5)) faults.push(`${what(element)} "${element.textContent.trim().slice(0, 30)}": contrast ${found.toFixed(2)}`);
    }
    if (element.matches("input:not([type=range], [type=checkbox]), select, textarea, button.plain, .round")) {
      const under = ground(element.parentElement);
      const edge = ratio(over(channels(style.borderTopColor), under), under);
      if (edge < 3) faults.push(`${what(element)}: edge contrast ${edge.toFixed(2)}`);
    }
  }
  return { faults, texts };
}
