"""The page from 320 to 1,400 px in both themes.

Nothing overflows the page, no control covers another, and nothing moves when speech begins.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.page import desk
from tests.api.page.desk import until
from tests.api.page.filled import LONG, filled
from tests.api.page.world import World

pytestmark = pytest.mark.system
WIDTHS = range(320, 1401, 40)
VIEWS = ("speak", "voices", "train/reading", "train/recordings", "train/trains", "compare", "books")
CONTROLS = "button, a, input, select, textarea, summary"
# Where each control and heading is on the page: [name, left, top, right, bottom]. The slider of the
# desk covers both lanes by design; the buttons lie above it (test_access.py). A new take pushes the
# earlier ones and the foot of the page down, by design too.
PLACES = f"""[...document.querySelectorAll("{CONTROLS}, h1, h2, h3, h4, dt, dd, canvas")]
  .filter((one) => one.id !== "position"
    && !one.matches("#player *, #take-list *, #forget-takes, footer *, .skip, .hidden, .hidden *")
    && one.checkVisibility({{ visibilityProperty: true }}))
  .map((one) => {{
    const {{ left, top, right, bottom }} = one.getBoundingClientRect();
    const name = one.id || one.getAttribute("aria-label") || one.textContent.trim();
    return [`${{one.localName}} ${{name}}`.slice(0, 60), left + scrollX, top + scrollY,
            right + scrollX, bottom + scrollY];
  }})"""
OUTSIDE = """[...document.querySelectorAll("body *")]
  .filter((one) => !one.closest("#judged-table thead, #speaker, pre, .hidden, .skip, svg")
    && one.checkVisibility({ visibilityProperty: true }))
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5
    || one.getBoundingClientRect().left < -0.5)
  .map((one) => `${one.localName} ${one.id || one.textContent.trim()}`.slice(0, 60))"""
COVERED = f"""(() => {{
  const all = [...document.querySelectorAll("{CONTROLS}")]
    .filter((one) => one.id !== "position" && !one.matches(".skip")
      && !one.closest("#index, #status, #player, .menu-box, #about-box, #judged-table thead")
      && one.checkVisibility({{ visibilityProperty: true }}))
    .map((one) => [one, one.getBoundingClientRect()]);
  const name = (one) => `${{one.localName}} ${{one.id || one.textContent.trim()}}`.slice(0, 60);
  return all.flatMap(([one, a], i) => all.slice(i + 1)
    .filter(([other, b]) => !one.contains(other)
      && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5)
    .map(([other]) => `${{name(one)}} and ${{name(other)}}`));
}})()"""


def judged(world: World) -> None:
    filled(world)


def unjudged(world: World) -> None:
    filled(world).evaluation = None


def empty(world: World) -> None:
    world.epochs.clear()
    world.records.clear()
    world.training = False


def in_both_themes(page: Any, *expressions: str) -> list[Any]:
    """The value of each expression in the light theme, then in the dark theme."""
    places = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        places += [page.evaluate(expression) for expression in expressions]
    return places


@pytest.mark.parametrize("shown", [judged, unjudged, empty])
def test_nothing_leaves_the_page_and_no_control_covers_another(
    world: World, opened: Any, shown: Callable[[World], None]
) -> None:
    shown(world)
    page = opened(viewport={"width": 1400, "height": 900})
    if shown is not empty:
        until(page, desk.WORKS)
        for part in ("#book-files", "#clip-list", "#trainings"):
            page.wait_for_selector(f"{part} li", state="attached")
        page.fill("#text", LONG)
        page.select_option("#voice", "v1")  # a long name, too
        desk.speak(page, LONG)
        page.wait_for_selector("#take-list li")
    faults = {}
    for view in VIEWS:
        desk.go(page, view)
        for summary in page.locator("summary:visible:not(#about > *, .menu > *)").all():
            if summary.evaluate("one => one.parentElement.open") is False:
                summary.click()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(60)
            scrolls = f"document.documentElement.scrollWidth > {width} ? ['it scrolls'] : []"
            if any(places := in_both_themes(page, OUTSIDE, COVERED, scrolls)):
                faults[view, width] = places
    assert faults == {}


def moves(before: list[Any], after: list[Any]) -> list[str]:
    """The places of elements that moved or went. Elements may be added, such as a take."""
    moved = []
    there = list(after)
    for place in before:
        now = next((other for other in there if other[0] == place[0]), None)
        if now is not None:
            there.remove(now)
        if now != place:
            moved.append(f"{place} is now {now}")
    return moved


@pytest.mark.timeout(300)
def test_nothing_moves_when_speech_begins(world: World, opened: Any) -> None:
    moved = {}
    page = opened()
    for width in WIDTHS:
        world.speaking = 0
        page.set_viewport_size({"width": width, "height": 900})
        page.reload()
        until(page, f"{desk.WORKS} && document.getElementById('live').textContent === 'Live'")
        page.fill("#text", f"Good morning, and welcome: {LONG}. It is a long day.")
        before = in_both_themes(page, PLACES)
        page.focus("#say")
        page.keyboard.press("Enter")
        world.speaking = 1
        world.tell("status")
        until(page, "document.getElementById('fact-queue').textContent === '1 of 4 speaking'")
        until(page, f"{desk.SECONDS} > 0")
        after = in_both_themes(page, PLACES)
        page.evaluate("document.getElementById('stop').click()")  # It may have ended.
        if places := moves(before[0], after[0]) + moves(before[1], after[1]):
            moved[width] = places[:3]
    assert moved == {}


def test_the_test_sees_what_leaves_covers_and_moves(page: Any) -> None:
    before = page.evaluate(PLACES)
    page.evaluate("""() => {
      const { left, top } = document.getElementById("switch").getBoundingClientRect();
      document.getElementById("scale").style.cssText = `position: fixed; left: ${left}px; top: ${top}px`;
      document.getElementById("served").style.width = "4000px";
    }""")
    assert any("select scale" in place for place in page.evaluate(COVERED))
    assert "p served" in [place[:8] for place in page.evaluate(OUTSIDE)]
    assert any("select scale" in moved for moved in moves(before, page.evaluate(PLACES)))
